#pragma once

#include <optional>
#include <vector>

#include "bench/bench.h"
#include "bench/median.h"

namespace rlreplay::bench {

/// Work per second of one side, in the item's unit (10^9).
struct Rate {
  double median = 0;
  double best = 0;
};

struct Outcome {
  std::optional<Rate> ours;
  std::optional<Rate> torch;
  /// Median over the repetitions of (torch's time / our time): above 1, ours is faster.
  std::optional<double> ratio;
};

/// Measures both sides in turn (ours, torch, ours, torch, ...), each for `seconds` a repetition
/// after a call that is not timed.
[[nodiscard]] Outcome measure(const Item& item, const Sides& sides, int repetitions,
                              double seconds);

}  // namespace rlreplay::bench
