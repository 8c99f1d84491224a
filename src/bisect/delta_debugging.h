#pragma once

#include <functional>
#include <set>
#include <vector>

#include "src/replay/measure/judgement.h"

namespace rlreplay::bisect {

using Subset = std::set<size_t>;

/// What of a set of differences makes a run bad.
struct MinimalSets {
  std::vector<Subset>
      sets;               // of none of which a difference could be left out, as far as was judged
  size_t unresolved = 0;  // subsets that could not be judged
};

/// Finds the minimal subsets of 0 ... n - 1 that are bad, by delta debugging: one by halving what
/// makes a run bad, then each next one in what is left when a difference of each known one is taken
/// away. All are found where more differences never make a bad run good. The empty set is good and
/// the whole bad; no subset is asked for twice. Subsets that are skipped are taken not to be bad,
/// so that a set may then be larger than it need be.
/// Source: Zeller, Hildebrandt, Simplifying and isolating failure-inducing input (2002).
[[nodiscard]] MinimalSets minimal_sets(size_t n,
                                       const std::function<measure::Verdict(const Subset&)>& test);

}  // namespace rlreplay::bisect
