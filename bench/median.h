#pragma once

#include <algorithm>
#include <vector>

namespace rlreplay::bench {

/// The middle value, the lower one of two.
[[nodiscard]] inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

}  // namespace rlreplay::bench
