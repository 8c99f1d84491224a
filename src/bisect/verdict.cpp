#include "src/bisect/verdict.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "src/base/error.h"
#include "src/base/words.h"
#include "src/bisect/dumps.h"
#include "src/bisect/metrics.h"
#include "src/bisect/outcome.h"

namespace rlreplay::bisect {
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
  for (const Metric& metric : metrics) {
    if (criterion.metric && *criterion.metric != metric.name) continue;
    looked_at += metric.values.size();
    finite += static_cast<size_t>(std::ranges::count_if(
        metric.values, [](const MetricValue& value) { return !value.nonfinite(); }));
  }
  if (looked_at > 0 && finite == 0) {
    return criterion.metric.value_or("every number") + " is NaN or infinite wherever it stands";
  }
  const Metric* norm = criterion.metric ? nullptr : find_metric(metrics, "grad_norm");
  const auto is_zero = [](const MetricValue& value) {
    return value.text.empty() && value.number == 0;
  };
  if (norm != nullptr && !norm->values.empty() && std::ranges::all_of(norm->values, is_zero)) {
    return "grad_norm is 0 at every step, so nothing is trained";
  }
  return {};
}

Judgement judge_metrics(const Criterion& criterion, const std::vector<Metric>& reference,
                        const std::vector<Metric>& metrics) {
  Difference difference;
  bool differs = false;
  for (const auto& good : reference) {
    if (criterion.metric && *criterion.metric != good.name) continue;
    const Metric* bad = find_metric(metrics, good.name);
    if (bad == nullptr) {
      return {Verdict::kSkip, good.name + " is missing, which the reference has"};
    }
    if (bad->per_step != good.per_step || bad->values.size() != good.values.size()) {
      return {Verdict::kSkip, good.name + " has " + std::to_string(bad->values.size()) +
                                  " numbers where the reference has " +
                                  std::to_string(good.values.size())};
    }
    const auto parted = std::ranges::mismatch(good.step_names, bad->step_names);
    if (parted.in1 != good.step_names.end()) {
      return {Verdict::kSkip, good.name + " was recorded at step " + *parted.in2 +
                                  " where the reference has it at step " + *parted.in1};
    }
    compare_metric(good, *bad, criterion.tolerance, difference, differs);
  }
  if (difference.compared == 0) return {Verdict::kSkip, "there is no number to compare"};
  if (differs) return {Verdict::kBad, difference.describe(), difference};
  return {Verdict::kGood, counted(difference.compared, "number") +
                              (difference.compared == 1 ? " agrees" : " agree")};
}

namespace {

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
  if (outcome.exit_code != 0) {
    return {Verdict::kBad, "it exited with code " + std::to_string(outcome.exit_code)};
  }
  if (outcome.kind == Outcome::Kind::kDump) return judge_reference_dump(criterion, outcome.dump);
  if (outcome.kind == Outcome::Kind::kMetrics && criterion.metric &&
      find_metric(outcome.metrics, *criterion.metric) == nullptr) {
    return {Verdict::kSkip,
            "metrics.json has no " + *criterion.metric + "; it has " + names_of(outcome.metrics)};
  }
  const std::string empty = emptiness_of(criterion, outcome.metrics);
  if (!empty.empty()) return {Verdict::kSkip, "it can be no reference: " + empty};
  return {Verdict::kGood, "the reference"};
}

}  // namespace

void check_tolerance(const Criterion& criterion, const Outcome& reference) {
  if (criterion.tolerance == 0) return;
  const bool weights =
      reference.kind == Outcome::Kind::kDump && criterion.metric.value_or("weights") == "weights";
  if (!weights && reference.kind != Outcome::Kind::kExitCode) return;
  throw Error(
      ErrorCode::kUsage,
      std::string("--tolerance says how far a number may lie, and what is compared here, ") +
          (weights ? "digests of weights" : "exit codes") +
          ", is equal or not: name a number by --metric, or leave --tolerance out");
}

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

Judgement judge_repetition(const Criterion& criterion, const Outcome& first,
                           const Outcome& second) {
  if (second.kind != Outcome::Kind::kExitCode || first.kind != second.kind) {
    return judge(criterion, &first, second);
  }
  const std::string code = "exit code " + std::to_string(second.exit_code);
  if (second.exit_code == first.exit_code) return {Verdict::kGood, code};
  return {Verdict::kBad, code + " where the first run had " + std::to_string(first.exit_code)};
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
  Judgement judgement = outcome.kind == Outcome::Kind::kDump
                            ? judge_dump(criterion, reference->dump, outcome.dump)
                            : judge_metrics(criterion, reference->metrics, outcome.metrics);
  // A check of the run's own may have failed: its word and its output must not contradict.
  if (judgement.verdict == Verdict::kGood && outcome.exit_code != reference->exit_code) {
    return {Verdict::kSkip, "the run exited with code " + std::to_string(outcome.exit_code) +
                                ", yet what it left agrees with the reference"};
  }
  return judgement;
}

}  // namespace rlreplay::bisect
