#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/foreign/tree.h"
#include "format/sample_columns.h"

namespace rlreplay::replay {

/// A number that fewer samples have than one of as many gets no column where columns would take
/// much more than the file says.
inline constexpr size_t kRarePart = 8;

/// What rewards that are dicts say.
struct RewardComponents {
  /// A column of each key under which some reward has a number: NaN where one has none.
  std::optional<format::NamedColumns> columns;
  std::vector<std::string> rare;  // keys without a column
  bool any = false;               // a reward is a dict
};

/// The parts of the rewards of a rollout's samples in `order`, as the file or this program's own
/// export says them.
[[nodiscard]] RewardComponents reward_components(const foreign::Tree& tree,
                                                 const foreign::Sequence& samples,
                                                 std::span<const size_t> order);

/// What this program's own export put into a sample's metadata; null where there is none.
[[nodiscard]] const foreign::Value* own_value(const foreign::Tree& tree, foreign::Value sample,
                                              std::string_view key);

}  // namespace rlreplay::replay
