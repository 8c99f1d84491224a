#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/base/layout.h"

namespace rlreplay::engine {

/// The groups that a rank is in: all ranks, and along each axis those that differ in it alone.
enum class RankGroup : uint8_t { kWorld, kDp, kTp, kPp, kCp };
inline constexpr int kGroupCount = 5;

/// "world", "dp".
[[nodiscard]] std::string_view name(RankGroup group);

/// Ranks of the world in the order of a group, by its name.
using GroupMembers = std::array<std::vector<int>, kGroupCount>;

/// The groups that the rank at `place` is in.
[[nodiscard]] GroupMembers groups_of(const Layout& layout, const RankPlace& place);

}  // namespace rlreplay::engine
