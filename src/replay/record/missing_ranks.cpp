#include "src/replay/record/missing_ranks.h"

#include <algorithm>

namespace rlreplay::replay {

std::string missing_ranks(const std::set<int64_t>& there, int64_t ranks) {
  constexpr int64_t kMostNamed = 4;
  std::string named;
  int64_t next = 0, missing = 0;
  // By gaps: a file of a few lines may say that there are a million ranks.
  const auto skip_to = [&](int64_t end) {
    const int64_t gap = std::max<int64_t>(end - next, 0);
    const int64_t shown = std::clamp<int64_t>(kMostNamed - missing, 0, gap);
    for (int64_t rank = next; rank < next + shown; ++rank) {
      named += (named.empty() ? "" : ", ") + std::to_string(rank);
    }
    missing += gap;
    next = end + 1;
  };
  for (const int64_t rank : there) skip_to(std::min(rank, ranks));
  skip_to(ranks);
  if (missing > kMostNamed) named += " and " + std::to_string(missing - kMostNamed) + " more";
  return named;
}

}  // namespace rlreplay::replay
