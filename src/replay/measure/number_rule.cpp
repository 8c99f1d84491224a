#include <algorithm>
#include <cstdint>
#include <utility>

#include "src/base/words.h"
#include "src/replay/measure/judgement.h"
#include "src/replay/measure/metric_index.h"
#include "src/replay/measure/metric_selection.h"

namespace rlreplay::measure {
namespace {

/// Numbers of a later step come later, numbers of no step last.
bool comes_before(const Difference& a, const Difference& b) {
  return a.step.value_or(SIZE_MAX) < b.step.value_or(SIZE_MAX);
}

/// Compares one metric and keeps the first difference of all.
void compare_metric(const Metric& good, const Metric& bad, double tolerance, Difference& total,
                    bool& differs) {
  for (size_t i = 0; i < good.values.size(); ++i) {
    ++total.compared;
    if (agree(good.values[i], bad.values[i], tolerance)) continue;
    const auto step = good.per_step ? std::optional<size_t>(i) : std::nullopt;
    const std::string step_name = good.step_names.empty() ? std::to_string(i) : good.step_names[i];
    const Difference here{good.name,      step,          good.per_step ? step_name : "",
                          good.values[i], bad.values[i], total.different + 1,
                          total.compared};
    if (!differs || comes_before(here, total)) {
      total = here;
    } else {
      ++total.different;
    }
    differs = true;
  }
}

/// `largest at sample 7, token 3; mean 0.1, p50 0.05, p99 0.5, 0 of 24 not finite`
std::string spread_of(const LogProbDifference& d) {
  std::string text = d.where ? "largest at sample " + std::to_string(d.where->sample) + ", token " +
                                   std::to_string(d.where->token) + "; "
                             : std::string();
  for (const auto& [name, value] : {std::pair("mean", d.mean), {"p50", d.p50}, {"p99", d.p99}}) {
    text += std::string(name) + " " + MetricValue{value}.describe() + ", ";
  }
  return text + std::to_string(d.nonfinite) + " of " + std::to_string(d.tokens) + " not finite";
}

}  // namespace

std::string Difference::describe() const {
  const std::string place = step ? metric + " at step " + step_name : metric;
  const std::string text = place + ": " + bad.describe() + " where the reference has " +
                           good.describe() + " (" + std::to_string(different) + " of " +
                           std::to_string(compared) + " numbers differ)";
  return log_probs ? text + "; in that step " + spread_of(*log_probs) : text;
}

std::string emptiness_of(const Criterion& criterion, const std::vector<Metric>& metrics) {
  size_t finite = 0, looked_at = 0;
  const MetricSelection selection(criterion);
  for (const Metric& metric : metrics) {
    if (!selection.has(metric.name)) continue;
    looked_at += metric.values.size();
    finite += static_cast<size_t>(std::ranges::count_if(
        metric.values, [](const MetricValue& value) { return !value.nonfinite(); }));
  }
  if (looked_at > 0 && finite == 0) {
    return (criterion.metrics.empty() ? "every number" : joined(criterion.metrics, ", ")) +
           " is NaN or infinite wherever it stands";
  }
  const Metric* norm = !criterion.metrics.empty() ? nullptr : find_metric(metrics, "grad_norm");
  const auto is_zero = [](const MetricValue& value) {
    return value.text.empty() && value.number == 0;
  };
  if (norm != nullptr && !norm->values.empty() && std::ranges::all_of(norm->values, is_zero)) {
    return "grad_norm is 0 at every step, so nothing is trained";
  }
  return {};
}

namespace {

/// Whether two metrics have numbers in the same places; why not.
std::string mismatch_of(const Metric& good, const Metric* bad) {
  if (bad == nullptr) return good.name + " is missing, which the reference has";
  if (bad->per_step != good.per_step) {
    return good.name + (good.per_step
                            ? " is one value where the reference has a list, one a step"
                            : " is a list, one a step, where the reference has one value");
  }
  if (bad->values.size() != good.values.size()) {
    return good.name + " has " + std::to_string(bad->values.size()) +
           " numbers where the reference has " + std::to_string(good.values.size());
  }
  const auto parted = std::ranges::mismatch(good.step_names, bad->step_names);
  if (parted.in1 == good.step_names.end()) return {};
  return good.name + " was recorded at step " + *parted.in2 +
         " where the reference has it at step " + *parted.in1;
}

}  // namespace

Judgement judge_metrics(const Criterion& criterion, const std::vector<Metric>& reference,
                        const std::vector<Metric>& metrics) {
  Difference difference;
  bool differs = false;
  const MetricIndex index(metrics);
  const MetricSelection selection(criterion);
  for (const auto& good : reference) {
    if (!selection.has(good.name)) continue;
    const Metric* bad = index.find(good.name);
    const std::string mismatch = mismatch_of(good, bad);
    if (!mismatch.empty()) return {Verdict::kSkip, mismatch};
    compare_metric(good, *bad, criterion.tolerance, difference, differs);
  }
  if (difference.compared == 0) return {Verdict::kSkip, "there is no number to compare"};
  if (differs) return {Verdict::kBad, difference.describe(), difference};
  return {Verdict::kGood, counted(difference.compared, "number") +
                              (difference.compared == 1 ? " agrees" : " agree")};
}

}  // namespace rlreplay::measure
