#pragma once

#include <functional>
#include <string>

#include "src/replay/measure/separation.h"

namespace rlreplay::bisect {

/// An end of a history where the runs of one end differ.
struct NoisyEnd {
  std::string name;                                  // as a sentence calls it
  size_t runs = 0;                                   // how many are to be looked at
  std::function<measure::Measurement(size_t)> take;  // gives the n-th
};

/// What tells two such ends apart.
struct NoisyEnds {
  std::string problem = {};  // why their runs cannot be compared; empty where they can
  measure::Separation separation = {};
};

/// Runs the good end, then the bad one, until a run leaves other things than the first.
[[nodiscard]] NoisyEnds separate_ends(const measure::Criterion& criterion, const NoisyEnd& good,
                                      const NoisyEnd& bad);

}  // namespace rlreplay::bisect
