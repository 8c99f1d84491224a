#include "src/bisect/search.h"

#include <algorithm>
#include <bit>

#include "src/base/error.h"

namespace rlreplay::bisect {

size_t Search::distance_to_skipped(size_t place) const {
  size_t distance = bad_ - good_;
  const auto after = skipped_.lower_bound(place);
  if (after != skipped_.end()) distance = *after - place;
  if (after != skipped_.begin()) distance = std::min(distance, place - *std::prev(after));
  return distance;
}

std::optional<size_t> Search::next() const {
  // The middle from above and below; what is left over at an end counts for less than a place.
  const size_t middle = good_ + (bad_ - good_) / 2;
  const auto from_middle = [&](size_t place) {
    return place < middle ? middle - place : place - middle;
  };
  size_t wanted = skipped_.empty() ? 0 : size_t{1} << std::min<size_t>(skipped_.size() - 1, 40);
  for (;; wanted /= 2) {
    std::optional<size_t> best;
    for (size_t place = good_ + 1; place < bad_; ++place) {
      if (skipped_.contains(place) || distance_to_skipped(place) < wanted) continue;
      if (!best || from_middle(place) < from_middle(*best)) best = place;
    }
    if (best || wanted == 0) return best;
  }
}

void Search::add(size_t place, Verdict verdict) {
  check(place > good_ && place < bad_, "a verdict about a place that is decided already");
  switch (verdict) {
    case Verdict::kGood:
      good_ = place;
      break;
    case Verdict::kBad:
      bad_ = place;
      break;
    case Verdict::kSkip:
      skipped_.insert(place);
      return;
  }
  skipped_.erase(skipped_.begin(), skipped_.upper_bound(good_));
  skipped_.erase(skipped_.lower_bound(bad_), skipped_.end());
}

size_t Search::left() const {
  return static_cast<size_t>(std::bit_width(bad_ - good_ - 1 - skipped_.size()));
}

}  // namespace rlreplay::bisect
