#include "src/bisect/search.h"

#include <algorithm>
#include <bit>

namespace rlreplay::bisect {

size_t Search::distance_to_skipped(size_t place) const {
  size_t distance = bad_ - good_;
  const auto after = skipped_.lower_bound(place);
  if (after != skipped_.end()) distance = *after - place;
  if (after != skipped_.begin()) distance = std::min(distance, place - *std::prev(after));
  return distance;
}

/// The place that is nearest to a wanted one and far enough from those that could not be judged.
std::optional<size_t> Search::nearest_to(size_t wanted, const std::set<size_t>& taken) const {
  // What is left over at an end counts for less than a place.
  const auto from_wanted = [&](size_t place) {
    return place < wanted ? wanted - place : place - wanted;
  };
  size_t distance = skipped_.empty() ? 0 : size_t{1} << std::min<size_t>(skipped_.size() - 1, 40);
  for (;; distance /= 2) {
    std::optional<size_t> best;
    for (size_t place = good_ + 1; place < bad_; ++place) {
      if (skipped_.contains(place) || taken.contains(place)) continue;
      if (distance_to_skipped(place) < distance) continue;
      if (!best || from_wanted(place) < from_wanted(*best)) best = place;
    }
    if (best || distance == 0) return best;
  }
}

std::vector<size_t> Search::next(size_t k) const {
  std::set<size_t> places;
  for (size_t i = 1; i <= k; ++i) {
    const size_t wanted = good_ + (bad_ - good_) * i / (k + 1);
    const auto place = nearest_to(wanted, places);
    if (!place) break;
    places.insert(*place);
  }
  return {places.begin(), places.end()};
}

void Search::add(size_t place, Verdict verdict) {
  if (place <= good_ || place >= bad_) return;
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
