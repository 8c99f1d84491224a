#include "src/bisect/verdict.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "src/base/error.h"
#include "src/bisect/outcome.h"

namespace rlreplay::bisect {
namespace {

std::string decimal(double value) {
  if (std::isnan(value)) return "nan";
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

/// NaN agrees with NaN, and an infinity only with itself, at any tolerance.
bool agree(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b)) return true;
  return tolerance > 0 && std::isfinite(a) && std::isfinite(b) && std::fabs(a - b) <= tolerance;
}

/// Numbers of a later step come later, numbers of no step last.
bool comes_before(const Difference& a, const Difference& b) {
  return a.step.value_or(SIZE_MAX) < b.step.value_or(SIZE_MAX);
}

const Metric* find_metric(const std::vector<Metric>& metrics, const std::string& name) {
  const auto it = std::find_if(metrics.begin(), metrics.end(),
                               [&](const Metric& metric) { return metric.name == name; });
  return it == metrics.end() ? nullptr : &*it;
}

std::string names_of(const std::vector<Metric>& metrics) {
  std::string names;
  for (const auto& metric : metrics) names += (names.empty() ? "" : ", ") + metric.name;
  return names;
}

/// Compares one metric and keeps the first difference of all.
void compare_metric(const Metric& good, const Metric& bad, double tolerance, Difference& total,
                    bool& differs) {
  for (size_t i = 0; i < good.values.size(); ++i) {
    ++total.compared;
    if (agree(good.values[i], bad.values[i], tolerance)) continue;
    const auto step = good.per_step ? std::optional<size_t>(i) : std::nullopt;
    const Difference here{good.name,           step,          good.values[i], bad.values[i],
                          total.different + 1, total.compared};
    if (!differs || comes_before(here, total)) {
      total = here;
    } else {
      ++total.different;
    }
    differs = true;
  }
}

Judgement judge_metrics(const Criterion& criterion, const std::vector<Metric>& reference,
                        const std::vector<Metric>& metrics) {
  Difference difference;
  bool differs = false;
  for (const auto& good : reference) {
    if (criterion.metric && *criterion.metric != good.name) continue;
    const Metric* bad = find_metric(metrics, good.name);
    if (bad == nullptr) {
      return {Verdict::kSkip, "metrics.json lacks " + good.name + ", which the reference has"};
    }
    if (bad->per_step != good.per_step || bad->values.size() != good.values.size()) {
      return {Verdict::kSkip, good.name + " has " + std::to_string(bad->values.size()) +
                                  " numbers where the reference has " +
                                  std::to_string(good.values.size())};
    }
    compare_metric(good, *bad, criterion.tolerance, difference, differs);
  }
  if (difference.compared == 0) return {Verdict::kSkip, "there is no number to compare"};
  if (differs) return {Verdict::kBad, difference.describe(), difference};
  return {Verdict::kGood, std::to_string(difference.compared) + " numbers agree"};
}

/// Whether an outcome can be the reference of others.
Judgement judge_reference(const Criterion& criterion, const Outcome& outcome) {
  if (outcome.kind == Outcome::Kind::kExitCode) {
    if (criterion.metric) {
      return {Verdict::kSkip, "the run left an exit code only, in which there is no " +
                                  *criterion.metric + " to compare"};
    }
    return outcome.exit_code == 0 ? Judgement{Verdict::kGood, "exit code 0"}
                                  : Judgement{Verdict::kBad, "exit code 1"};
  }
  if (outcome.kind == Outcome::Kind::kMetrics && criterion.metric &&
      find_metric(outcome.metrics, *criterion.metric) == nullptr) {
    return {Verdict::kSkip,
            "metrics.json has no " + *criterion.metric + "; it has " + names_of(outcome.metrics)};
  }
  return {Verdict::kGood, "the reference"};
}

Judgement judge_output(const Criterion& criterion, const Outcome& reference,
                       const Outcome& outcome) {
  if (outcome.kind == Outcome::Kind::kDump) {
    throw Error(ErrorCode::kUnsupported,
                "a run left a dump, and dumps are compared by `rlreplay diff`: leave metrics.json "
                "or an exit code",
                outcome.dump);
  }
  return judge_metrics(criterion, reference.metrics, outcome.metrics);
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood:
      return "good";
    case Verdict::kBad:
      return "bad";
    case Verdict::kSkip:
      return "skipped";
  }
  return "skipped";
}

std::string Difference::describe() const {
  const std::string place = step ? metric + " at step " + std::to_string(*step) : metric;
  return place + ": " + decimal(bad) + " where the reference has " + decimal(good) + " (" +
         std::to_string(different) + " of " + std::to_string(compared) + " numbers differ)";
}

Judgement judge(const Criterion& criterion, const Outcome* reference, const Outcome& outcome) {
  if (outcome.kind == Outcome::Kind::kNothing) return {Verdict::kSkip, outcome.problem};
  if (reference == nullptr || outcome.kind == Outcome::Kind::kExitCode) {
    if (reference == nullptr || reference->kind == outcome.kind) {
      return judge_reference(criterion, outcome);
    }
  }
  if (reference->kind != outcome.kind) {
    return {Verdict::kSkip, "the run left " + to_string(outcome.kind) +
                                " where the reference has " + to_string(reference->kind)};
  }
  Judgement judgement = judge_output(criterion, *reference, outcome);
  // A check of the run's own may have failed: its word and its output must not contradict.
  if (judgement.verdict == Verdict::kGood && outcome.exit_code != reference->exit_code) {
    return {Verdict::kSkip, "the run exited with code " + std::to_string(outcome.exit_code) +
                                ", yet what it left agrees with the reference"};
  }
  return judgement;
}

}  // namespace rlreplay::bisect
