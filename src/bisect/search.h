#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "src/replay/measure/judgement.h"

namespace rlreplay::bisect {

using measure::Verdict;

/// The strategy of halving: finds the first bad place of a row 0 ... last, of which 0 is good and
/// `last` bad. All it knows is the verdicts in their order, so a search that was cut short is
/// restored by telling them again.
class Search {
 public:
  explicit Search(size_t last) : bad_(last) {}

  /// Which places to judge next, at most k of them at once and in order: they part what is left
  /// into rows of one length, so that one is the place nearest to the middle. After places that
  /// could not be judged it keeps away from them, twice as far after each, since they come in
  /// stretches; without any, log of the places to the base k + 1 rounds are asked for. Nothing when
  /// no answer could narrow the search further.
  std::vector<size_t> next(size_t k) const;

  /// A verdict about a place that others have decided meanwhile changes nothing.
  void add(size_t place, Verdict verdict);

  /// The last place that is known to be good, and the first that is known to be bad: the places
  /// between them could not be judged, once `next` has nothing to ask.
  size_t good() const { return good_; }
  size_t bad() const { return bad_; }

  /// How many more places will be asked for if none is skipped.
  size_t left() const;

 private:
  size_t distance_to_skipped(size_t place) const;
  [[nodiscard]] std::optional<size_t> nearest_to(size_t wanted,
                                                 const std::set<size_t>& taken) const;

  size_t good_ = 0;
  size_t bad_;
  std::set<size_t> skipped_;  // between good_ and bad_
};

}  // namespace rlreplay::bisect
