#include "src/bisect/change_point.h"

#include <algorithm>
#include <cmath>

namespace rlreplay::bisect {
namespace {

// The prior of a normal distribution, of values in units of their own spread: its mean is known as
// well as by a hundredth of a value, its variance as by one.
constexpr double kMeanWeight = 0.01, kShape = 0.5, kRate = 0.5;

double log_beta(double a, double b) { return std::lgamma(a) + std::lgamma(b) - std::lgamma(a + b); }

}  // namespace

ChangePoint::ChangePoint(size_t last, Values values)
    : values_(values), seen_(last + 1), skipped_(last + 1), posterior_(last + 1) {
  update();
}

void ChangePoint::add(size_t place, double value) {
  seen_[place].push_back(value);
  update();
}

void ChangePoint::skip(size_t place) {
  skipped_[place] = true;
  update();
}

/// The logarithm of how probable values are that have one distribution.
double ChangePoint::evidence(const Sums& sums) const {
  if (values_ == Values::kVerdicts) {
    return log_beta(0.5 + sums.sum, 0.5 + sums.count - sums.sum) - log_beta(0.5, 0.5);
  }
  if (sums.count == 0) return 0;
  const double weight = kMeanWeight + sums.count, shape = kShape + sums.count / 2;
  const double mean = sums.sum / sums.count;
  const double around = std::max(0.0, sums.squares - sums.sum * mean);
  const double rate = kRate + around / 2 + kMeanWeight * sums.count * mean * mean / (2 * weight);
  return std::lgamma(shape) - std::lgamma(kShape) + kShape * std::log(kRate) -
         shape * std::log(rate) + 0.5 * std::log(kMeanWeight / weight);
}

void ChangePoint::update() {
  // In units of the spread within the two ends, so that the prior fits any number.
  double mean = 0, spread = 1;
  if (values_ == Values::kNumbers) {
    double count = 0, within = 0, all = 0, squares = 0;
    for (const auto& place : seen_) {
      double sum = 0, square = 0;
      for (const double value : place) sum += value, square += value * value;
      if (!place.empty()) within += square - sum * sum / static_cast<double>(place.size());
      count += static_cast<double>(place.size());
      all += sum;
    }
    mean = count > 0 ? all / count : 0;
    for (const auto& place : seen_) {
      for (const double value : place) squares += (value - mean) * (value - mean);
    }
    const double places = static_cast<double>(
        std::ranges::count_if(seen_, [](const auto& place) { return !place.empty(); }));
    spread = count > places && within > 0 ? std::sqrt(within / (count - places))
                                          : std::sqrt(squares / std::max(1.0, count));
    if (!(spread > 0)) spread = 1;
  }
  Sums all;
  std::vector<Sums> before(seen_.size() + 1);
  for (size_t place = 0; place < seen_.size(); ++place) {
    for (const double value : seen_[place]) {
      const double scaled = (value - mean) / spread;
      all.count += 1, all.sum += scaled, all.squares += scaled * scaled;
    }
    before[place + 1] = all;
  }
  std::vector<double> logs(seen_.size());
  const double prior = -std::log(static_cast<double>(seen_.size() - 1));
  const double nothing = evidence(all);
  double most = nothing;
  for (size_t k = 1; k < seen_.size(); ++k) {
    const Sums& good = before[k];
    const Sums bad{all.count - good.count, all.sum - good.sum, all.squares - good.squares};
    logs[k] = prior + evidence(good) + evidence(bad);
    most = std::max(most, logs[k]);
  }
  double total = std::exp(nothing - most);
  for (size_t k = 1; k < seen_.size(); ++k) total += posterior_[k] = std::exp(logs[k] - most);
  unchanged_ = std::exp(nothing - most) / total;
  for (size_t k = 1; k < seen_.size(); ++k) posterior_[k] /= total;
}

/// The end of which less than half as many values are known as of the other side, if any.
std::optional<size_t> ChangePoint::starved_end() const {
  const size_t change = best().first;
  size_t before = 0, behind = 0;
  for (size_t place = 0; place < seen_.size(); ++place) {
    (place < change ? before : behind) += seen_[place].size();
  }
  if (2 * before < behind) return 0;
  if (2 * behind < before) return seen_.size() - 1;
  return std::nullopt;
}

size_t ChangePoint::next() const {
  if (const auto end = starved_end()) return *end;
  const double changed = 1 - unchanged_;
  double behind = 0, nearest = 2;  // how probable it is that the change has happened by this place
  size_t best = 0;
  for (size_t place = 0; place < seen_.size(); ++place) {
    behind += place == 0 ? 0 : posterior_[place];
    const double distance = std::fabs((changed > 0 ? behind / changed : 0) - 0.5);
    const bool fewer = distance == nearest && seen_[place].size() < seen_[best].size();
    if (skipped_[place] || !(distance < nearest || fewer)) continue;
    nearest = distance;
    best = place;
  }
  return best;
}

std::vector<ChangePoint::Answer> ChangePoint::groups() const {
  std::vector<Answer> out;
  for (size_t k = 1; k < seen_.size(); ++k) {
    if (out.empty() || !skipped_[k - 1]) out.push_back({k, k, 0});
    out.back().last = k;
    out.back().probability += posterior_[k];
  }
  return out;
}

ChangePoint::Answer ChangePoint::best() const {
  const auto all = groups();
  return *std::ranges::max_element(all, {}, &Answer::probability);
}

ChangePoint::Answer ChangePoint::interval(double probability) const {
  const auto all = groups();
  const auto at = std::ranges::max_element(all, {}, &Answer::probability);
  size_t first = static_cast<size_t>(at - all.begin()), last = first;
  Answer out = *at;
  while (out.probability < probability && (first > 0 || last + 1 < all.size())) {
    const double left = first > 0 ? all[first - 1].probability : -1;
    const double right = last + 1 < all.size() ? all[last + 1].probability : -1;
    left > right ? --first : ++last;
    out.probability += std::max(left, right);
  }
  return {all[first].first, all[last].last, out.probability};
}

}  // namespace rlreplay::bisect
