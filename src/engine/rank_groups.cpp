#include "src/engine/rank_groups.h"

#include <numeric>

namespace rlreplay::engine {

std::string_view name(RankGroup group) {
  constexpr std::array<std::string_view, kGroupCount> kNames{"world", "dp", "tp", "pp", "cp"};
  return kNames[static_cast<size_t>(group)];
}

GroupMembers groups_of(const Layout& layout, const RankPlace& place) {
  const auto along = [&](int RankPlace::*axis, int size) {
    std::vector<int> out;
    for (RankPlace at = place; std::ssize(out) < size;) {
      at.*axis = static_cast<int>(out.size());
      out.push_back(rank_of(layout, at));
    }
    return out;
  };
  std::vector<int> world(static_cast<size_t>(layout.ranks()));
  std::iota(world.begin(), world.end(), 0);
  return {std::move(world), along(&RankPlace::dp, layout.dp), along(&RankPlace::tp, layout.tp),
          along(&RankPlace::pp, layout.pp), along(&RankPlace::cp, layout.cp)};
}

}  // namespace rlreplay::engine
