#pragma once

#include <span>

namespace rlreplay {

/// The nearest-rank percentile of values in ascending order; 0 of none.
/// Units: `share` of 1: the median is 0.5.
[[nodiscard]] double percentile(std::span<const double> sorted, double share);

}  // namespace rlreplay
