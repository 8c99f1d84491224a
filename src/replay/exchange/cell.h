#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "format/foreign/tree.h"
#include "format/rollout_data.h"
#include "format/train_data.h"

/// Where the content of somebody else's file lies in a dump of ours.
namespace rlreplay::replay {

/// A sample's part of one dataset: its tokens, the values of its response, or a text.
using Cell = std::variant<std::span<const int32_t>, std::span<const uint8_t>,
                          std::span<const float>, std::span<const double>, std::string_view>;

/// The cell of a row; nothing where the dataset is absent or the sample has none.
[[nodiscard]] std::optional<Cell> find_cell(const format::RolloutData& data,
                                            std::string_view dataset, size_t row);
[[nodiscard]] std::optional<Cell> find_cell(const format::TrainData& data, std::string_view dataset,
                                            size_t row);

/// The rollouts and training data that places refer to, by "rollout/3" and "train/3-0".
struct NativeData {
  std::map<std::string, format::RolloutData, std::less<>> rollouts;
  std::map<std::string, format::TrainData, std::less<>> trains;

  /// The cell at "rollout/3/tokens/12".
  [[nodiscard]] std::optional<Cell> find(std::string_view place) const;
};

/// Whether a list, text or tensor of a foreign file is the cell, type and bits.
[[nodiscard]] bool holds(const foreign::Tree& tree, foreign::Value value, const Cell& cell);

/// The cell as a list of Python's integers or floats, or as a text.
[[nodiscard]] foreign::Value add_cell(foreign::Tree& tree, const Cell& cell);

/// The cell as the elements of a tensor; nothing where the type cannot hold them exactly.
[[nodiscard]] std::optional<std::vector<uint8_t>> tensor_bytes(const Cell& cell,
                                                               foreign::TorchDType dtype);

}  // namespace rlreplay::replay
