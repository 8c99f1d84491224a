#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "src/engine/gradients.h"
#include "src/engine/optimizer_step.h"

/// Copies of one number on several ranks: data- and context-parallel ranks hold the same weights,
/// moments and sums (of the last two, with zero, those of data parallelism do not), tensor-parallel
/// ones the same norms, first and last stage one tied embedding.
namespace rlreplay::engine {

/// The first number, in the order of the model's parameters, that two ranks hold differently.
struct ReplicaDifference {
  Event event;
  int64_t index = 0;        // flat, in the whole tensor
  std::string place;        // "[3, 7]"
  int rank = 0, other = 0;  // who hold it differently
  bool outvoted = false;    // more ranks hold what `other` does than what `rank` does
  int copies = 0;           // ranks that hold the number
  std::string value, other_value;

  friend bool operator==(const ReplicaDifference&, const ReplicaDifference&) = default;
};

/// "reduce/0/gradient/w[3, 7] is 5 on rank 1 (dp 1) and 4 on rank 0 (dp 0)", and who is outvoted.
[[nodiscard]] std::string to_string(const ReplicaDifference& difference, const Layout& layout);

/// Compares the exact sums of the elements `held` by digest, after they were reduced. Every rank is
/// told the same.
[[nodiscard]] std::optional<ReplicaDifference> compare_sums(const Runtime& runtime,
                                                            const Model& model, kernels::Range held,
                                                            const Gradients& gradients);

/// Compares weights and moments by digest, after the update. Every rank is told the same.
[[nodiscard]] std::optional<ReplicaDifference> compare_state(const Runtime& runtime,
                                                             const Model& model,
                                                             const Moments& moments);

}  // namespace rlreplay::engine
