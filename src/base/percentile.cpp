#include "src/base/percentile.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace rlreplay {

double percentile(std::span<const double> sorted, double share) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(rank, 1) - 1];
}

}  // namespace rlreplay
