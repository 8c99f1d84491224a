#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rlreplay::replay {

/// A tensor's name in parts, whatever scheme it follows: "model.layers.3.mlp.experts.5.up.weight"
/// is expert 5 of layer 3 of the stack "model.layers" in the role "mlp.experts.*.up.weight".
struct WeightName {
  std::string stack;    // empty outside of layers
  int64_t layer = -1;   // -1 outside of layers
  int64_t expert = -1;  // -1 outside of experts
  std::string role;     // outside of layers the whole name
};

/// The parts of a name.
[[nodiscard]] WeightName split_name(std::string_view name);

/// The name that its parts have. `expert`: what stands for the number in the role.
[[nodiscard]] std::string joined_name(std::string_view stack, int64_t layer, std::string_view role,
                                      int64_t expert = -1);

/// Whether a stack is of the language model, and not of images, sounds or predicted tokens.
[[nodiscard]] bool is_text_stack(std::string_view stack);

/// What the tensor is, by the names that frameworks give it.
[[nodiscard]] bool is_embedding(std::string_view name);
[[nodiscard]] bool is_head(std::string_view name);
[[nodiscard]] bool is_router(std::string_view name);

}  // namespace rlreplay::replay
