#pragma once

#include <cstddef>
#include <optional>
#include <set>

#include "src/bisect/verdict.h"

namespace rlreplay::bisect {

/// Finds the first bad place of a row 0 ... last, of which 0 is good and `last` bad. All it knows
/// is the verdicts in their order, so a search that was cut short is restored by telling them
/// again.
class Search {
 public:
  explicit Search(size_t last) : bad_(last) {}

  /// Which place to judge next: the one nearest to the middle. After places that could not be
  /// judged it keeps away from them, twice as far after each, since they come in stretches; without
  /// any, log2 of the places are asked for. Nothing when no answer could narrow the search further.
  std::optional<size_t> next() const;

  void add(size_t place, Verdict verdict);

  /// The last place that is known to be good, and the first that is known to be bad: the places
  /// between them could not be judged, once `next` has nothing to ask.
  size_t good() const { return good_; }
  size_t bad() const { return bad_; }

  /// How many more places will be asked for if none is skipped.
  size_t left() const;

 private:
  size_t distance_to_skipped(size_t place) const;

  size_t good_ = 0;
  size_t bad_;
  std::set<size_t> skipped_;  // between good_ and bad_
};

}  // namespace rlreplay::bisect
