#include "src/replay/measure/separation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "src/replay/measure/log_probs.h"
#include "src/replay/measure/metric_index.h"
#include "src/replay/measure/metric_selection.h"

namespace rlreplay::measure {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kGoodFloors = 4;  // how many times the noise is still good

double value_distance(const MetricValue& a, const MetricValue& b) {
  if (agree(a, b, 0)) return 0;
  const bool numbers = a.text.empty() && b.text.empty() && !a.nonfinite() && !b.nonfinite();
  // +0 and -0 are no number apart, and yet not the same.
  return numbers ? std::max(std::fabs(a.number - b.number), std::numeric_limits<double>::min())
                 : kInfinity;
}

/// A run whose metrics are asked for by name.
struct NamedRun {
  explicit NamedRun(const Measurement& measured) : run(&measured), metrics(measured.metrics) {}

  const Measurement* run;
  MetricIndex metrics;
};

using NamedRuns = std::vector<NamedRun>;

double metric_distance(const std::string& name, const NamedRun& a, const NamedRun& b) {
  if (name == kForwardLogpMaxDiff) return log_prob_distance(*a.run, *b.run);
  const Metric *left = a.metrics.find(name), *right = b.metrics.find(name);
  if (left == nullptr || right == nullptr || left->values.size() != right->values.size() ||
      left->step_names != right->step_names) {
    return kInfinity;
  }
  double distance = 0;
  for (size_t i = 0; i < left->values.size(); ++i) {
    distance = std::max(distance, value_distance(left->values[i], right->values[i]));
  }
  return distance;
}

Spread spread_between(const std::string& name, const NamedRuns& good, const NamedRuns& bad) {
  Spread spread{name, 0, kInfinity};
  for (const auto* runs : {&good, &bad}) {
    for (size_t i = 0; i < runs->size(); ++i) {
      for (size_t j = i + 1; j < runs->size(); ++j) {
        spread.floor = std::max(spread.floor, metric_distance(name, (*runs)[i], (*runs)[j]));
      }
    }
  }
  for (const NamedRun& a : good) {
    for (const NamedRun& b : bad) spread.gap = std::min(spread.gap, metric_distance(name, a, b));
  }
  return spread;
}

std::vector<std::string> candidates(const Criterion& criterion, const Measurement& reference) {
  std::vector<std::string> names;
  if (criterion.needs_log_probs()) names.emplace_back(kForwardLogpMaxDiff);
  const MetricSelection selection(criterion);
  for (const Metric& metric : reference.metrics) {
    if (selection.has(metric.name)) names.push_back(metric.name);
  }
  return names;
}

std::string number_text(double value) { return MetricValue{value}.describe(); }

std::vector<std::string> names_where(const std::vector<Spread>& spreads,
                                     const std::function<bool(const Spread&)>& holds) {
  std::vector<std::string> names;
  for (const Spread& spread : spreads) {
    if (holds(spread)) names.push_back(spread.metric);
  }
  return names;
}

double ratio_of(const Spread& spread) {
  return std::isfinite(spread.floor) && spread.floor > 0 ? spread.gap / spread.floor : 0;
}

/// Sets the criterion by the number that lies farthest apart in terms of its noise, and says why.
void separate_by_noise(const Criterion& criterion, Separation& out) {
  const auto best = std::ranges::max_element(out.spreads, {}, ratio_of);
  if (best == out.spreads.end()) {
    out.sentence = "no number of the runs counts, by which noise could be told from a change";
    return;
  }
  const std::string noise = best->metric + " lies up to " + number_text(best->floor) +
                            " apart in runs of one revision and at least " +
                            number_text(best->gap) + " between the ends";
  if (ratio_of(*best) < kLeastRatio) {
    out.sentence = "no number tells the ends apart: " + noise + ", which must be " +
                   number_text(kLeastRatio) + " times as much (--stat searches with such numbers)";
    return;
  }
  out.criterion = criterion;
  out.criterion->metrics = {best->metric};
  out.criterion->literal = true;
  out.criterion->tolerance = kGoodFloors * best->floor;
  out.criterion->bad_from = std::sqrt(out.criterion->tolerance * best->gap);
  out.sentence = noise + ": up to " + number_text(out.criterion->tolerance) +
                 " from the good end is good, more than " + number_text(*out.criterion->bad_from) +
                 " bad";
}

}  // namespace

Separation separate(const Criterion& criterion, const std::vector<Measurement>& good,
                    const std::vector<Measurement>& bad) {
  Separation out;
  const NamedRuns good_runs(good.begin(), good.end()), bad_runs(bad.begin(), bad.end());
  for (const std::string& name : candidates(criterion, good.front())) {
    out.spreads.push_back(spread_between(name, good_runs, bad_runs));
  }
  const auto repeats = [&](const Spread& s) { return s.floor <= criterion.tolerance; };
  const auto tells = names_where(
      out.spreads, [&](const Spread& s) { return repeats(s) && s.gap > criterion.tolerance; });
  if (tells.empty()) {
    separate_by_noise(criterion, out);
    return out;
  }
  const auto noisy = names_where(out.spreads, [&](const Spread& s) { return !repeats(s); });
  out.criterion = criterion;
  out.criterion->metrics = names_where(out.spreads, repeats);
  out.criterion->literal = true;
  out.sentence =
      (noisy.empty()
           ? ""
           : first_names(noisy) + " differ between runs of one revision and do not count; ") +
      first_names(tells) + (tells.size() == 1 ? " repeats and tells" : " repeat and tell") +
      " the ends apart";
  return out;
}

}  // namespace rlreplay::measure
