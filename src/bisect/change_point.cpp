#include "src/bisect/change_point.h"

#include <algorithm>
#include <cmath>

namespace rlreplay::bisect {
namespace {

// The prior of a normal distribution, of values in units of their own spread: its mean is known as
// well as by a hundredth of a value, its variance as by one.
constexpr double kMeanWeight = 0.01, kShape = 0.5, kRate = 0.5;

double log_beta(double a, double b) { return std::lgamma(a) + std::lgamma(b) - std::lgamma(a + b); }

using Places = std::vector<std::vector<double>>;  // values, by place

/// How values are told in terms of their mean and of their spread within a place, so that the prior
/// fits any number.
struct Unit {
  int exponent = 0;  // of the power of two that takes all near 1: no square overflows or vanishes
  double mean = 0, spread = 1;
};

int exponent_of(const Places& places) {
  double largest = 0;
  for (const auto& values : places) {
    for (const double value : values) largest = std::max(largest, std::fabs(value));
  }
  return largest > 0 ? -std::ilogb(largest) : 0;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double squares_around(double mean, const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum;
}

Unit unit_of(const Places& places) {
  Unit unit{.exponent = exponent_of(places)};
  std::vector<double> all;
  double within = 0, filled = 0;
  for (std::vector<double> values : places) {
    for (double& value : values) value = std::ldexp(value, unit.exponent);
    within += squares_around(mean_of(values), values);
    filled += values.empty() ? 0 : 1;
    all.insert(all.end(), values.begin(), values.end());
  }
  const auto count = static_cast<double>(all.size());
  unit.mean = mean_of(all);
  unit.spread = count > filled && within > 0
                    ? std::sqrt(within / (count - filled))
                    : std::sqrt(squares_around(unit.mean, all) / std::max(1.0, count));
  if (!(unit.spread > 0)) unit.spread = 1;
  return unit;
}

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

/// One after the other, so that nothing large cancels (Welford, 1962).
void ChangePoint::Sums::add(double value) {
  const double from = value - mean;
  count += 1;
  sum += value;
  mean += from / count;
  around += from * (value - mean);
}

/// The logarithm of how probable values are that have one distribution.
double ChangePoint::evidence(const Sums& sums) const {
  if (values_ == Values::kVerdicts) {
    return log_beta(0.5 + sums.sum, 0.5 + sums.count - sums.sum) - log_beta(0.5, 0.5);
  }
  if (sums.count == 0) return 0;
  const double weight = kMeanWeight + sums.count, shape = kShape + sums.count / 2;
  const double rate =
      kRate + sums.around / 2 + kMeanWeight * sums.count * sums.mean * sums.mean / (2 * weight);
  return std::lgamma(shape) - std::lgamma(kShape) + kShape * std::log(kRate) -
         shape * std::log(rate) + 0.5 * std::log(kMeanWeight / weight);
}

void ChangePoint::update() {
  const Unit unit = values_ == Values::kNumbers ? unit_of(seen_) : Unit{};
  const auto add = [&](Sums sums, size_t place) {
    for (const double value : seen_[place]) {
      sums.add((std::ldexp(value, unit.exponent) - unit.mean) / unit.spread);
    }
    return sums;
  };
  std::vector<Sums> before(seen_.size() + 1), from(seen_.size() + 1);
  for (size_t k = 0; k < seen_.size(); ++k) before[k + 1] = add(before[k], k);
  for (size_t k = seen_.size(); k > 0; --k) from[k - 1] = add(from[k], k - 1);
  std::vector<double> logs(seen_.size());
  const double prior = -std::log(static_cast<double>(seen_.size() - 1));
  const double nothing = evidence(before.back());
  double most = nothing;
  for (size_t k = 1; k < seen_.size(); ++k) {
    logs[k] = prior + evidence(before[k]) + evidence(from[k]);
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
