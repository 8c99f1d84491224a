#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/replay/measure/judgement.h"
#include "src/replay/measure/measurement.h"

namespace rlreplay::measure {

/// How far a number moves between runs of one end, and between the ends.
struct Spread {
  std::string metric;
  double floor = 0;  // the largest distance between two runs of one end, at any place of the metric
  double gap = 0;    // over all pairs of a good and a bad run, the smallest of such distances

  friend bool operator==(const Spread&, const Spread&) = default;
};

/// Whether two ends whose runs do not repeat can be told apart, and by what.
struct Separation {
  std::vector<Spread> spreads;         // of the numbers that the reference has and that count
  std::optional<Criterion> criterion;  // which tells them apart; nothing: none does
  std::string sentence;                // what of it is to be said
};

/// How many times as far as two runs of one end the two ends must lie apart.
inline constexpr double kLeastRatio = 40;

/// Numbers that repeat within the tolerance decide, where one of them tells the ends apart. Else
/// that which lies farthest apart in terms of its noise, if `kLeastRatio` times as far: up to four
/// times the noise is good, from the geometric mean of that and the gap on bad, and what lies
/// between is neither. All runs have come to their end; the first good one is the reference.
[[nodiscard]] Separation separate(const Criterion& criterion, const std::vector<Measurement>& good,
                                  const std::vector<Measurement>& bad);

}  // namespace rlreplay::measure
