#include "src/replay/measure/judgement.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "src/base/error.h"
#include "src/base/words.h"
#include "src/replay/measure/log_probs.h"
#include "src/replay/measure/measurement.h"

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

constexpr const char* kWeights = "weights";
constexpr int kFirstUnstarted = 126;

std::string exit_text(int code) { return "exit code " + std::to_string(code); }

bool is_named(const Criterion& criterion, int code) {
  return std::ranges::find(criterion.bad_exits, code) != criterion.bad_exits.end();
}

/// Whether all that a dump holds decides, for want of weights.
bool by_content(const Criterion& criterion, const Measurement& reference) {
  return !criterion.metric && !reference.content.empty();
}

Judgement judge_content(const Measurement& reference, const Measurement& measurement) {
  if (measurement.content.empty()) {
    return {Verdict::kSkip, "the dump holds weights where the reference holds none"};
  }
  if (measurement.content == reference.content) return {Verdict::kGood, "all content agrees"};
  return {Verdict::kBad,
          "content root " + measurement.content + " where the reference has " + reference.content};
}

Judgement judge_weights(const Measurement& reference, const Measurement& measurement) {
  for (size_t i = 0; i < reference.weights.size(); ++i) {
    const NamedDigest &good = reference.weights[i], &bad = measurement.weights[i];
    if (good.digest.empty() || bad.digest.empty()) {
      return {Verdict::kSkip, "the weights after step " + good.name + " were not recorded"};
    }
    if (good != bad) {
      return {Verdict::kBad, "weights after step " + good.name + ": digest " + bad.digest +
                                 " where the reference has " + good.digest};
    }
  }
  return {Verdict::kGood,
          "the weights after " + counted(reference.weights.size(), "step") + " agree"};
}

/// The first step in which two dumps part, as a sentence; empty where they have the same.
std::string other_steps(const std::vector<std::string>& good, const std::vector<std::string>& bad) {
  for (size_t i = 0; i < std::max(good.size(), bad.size()); ++i) {
    if (i < good.size() && i < bad.size() && good[i] == bad[i]) continue;
    const auto name = [&](const std::vector<std::string>& steps) {
      return i < steps.size() ? steps[i] : "none";
    };
    return "the dump has other steps than the reference: as number " + std::to_string(i + 1) + " " +
           name(bad) + " (of " + std::to_string(bad.size()) + ") where the reference has " +
           name(good) + " (of " + std::to_string(good.size()) + ")";
  }
  return {};
}

/// Whether digests of the two mean the same.
bool same_contract(const Measurement& reference, const Measurement& measurement) {
  const auto contract = [](const Measurement& of) {
    const auto at = std::ranges::find(of.inputs, kContractInput, &NamedDigest::name);
    return at == of.inputs.end() ? "" : at->digest;
  };
  return contract(reference) == contract(measurement);
}

/// ` (other inputs: the state before step 0.0)`: what is given is no computation.
std::string other_inputs(const Measurement& reference, const Measurement& measurement) {
  std::vector<std::string> others;
  for (size_t i = 0; i < std::min(reference.inputs.size(), measurement.inputs.size()); ++i) {
    if (reference.inputs[i] != measurement.inputs[i]) others.push_back(reference.inputs[i].name);
  }
  return others.empty() ? "" : " (given otherwise: " + joined(others, ", ") + ")";
}

Judgement judge_dump(const Criterion& criterion, const Measurement& reference,
                     const Measurement& measurement) {
  const std::string other = other_steps(reference.steps, measurement.steps);
  if (!other.empty()) return {Verdict::kSkip, other};
  const std::string metric = criterion.metric.value_or(kWeights);
  if (metric == kWeights && !same_contract(reference, measurement)) {
    return {Verdict::kSkip,
            "the dump was recorded under another contract of the bits than the reference, so their "
            "digests cannot be compared: name a number by --metric"};
  }
  Judgement judgement = by_content(criterion, reference) ? judge_content(reference, measurement)
                        : metric == kWeights             ? judge_weights(reference, measurement)
                        : metric == kForwardLogpMaxDiff
                            ? judge_log_probs(criterion, reference, measurement)
                            : judge_metrics(criterion, reference.metrics, measurement.metrics);
  if (judgement.verdict == Verdict::kBad) judgement.reason += other_inputs(reference, measurement);
  return judgement;
}

/// Whether a metric that is asked for is there, of a reference that left numbers.
Judgement judge_presence(const Criterion& criterion, const Measurement& measurement) {
  const bool dump = measurement.evidence == Evidence::kDump;
  if (dump && (!criterion.metric || *criterion.metric == kWeights ||
               *criterion.metric == kForwardLogpMaxDiff)) {
    const Judgement same = judge_dump(criterion, measurement, measurement);
    return same.verdict == Verdict::kGood ? Judgement{Verdict::kGood, "the reference"} : same;
  }
  if (criterion.metric && find_metric(measurement.metrics, *criterion.metric) == nullptr) {
    return {Verdict::kSkip, (dump ? "the dump has no " : "metrics.json has no ") +
                                *criterion.metric + "; it has " + names_of(measurement.metrics)};
  }
  return {Verdict::kGood, "the reference"};
}

Judgement judge_exit(const Criterion& criterion, const Measurement& measurement) {
  if (criterion.metric) {
    return {Verdict::kSkip, "the run left an exit code only, in which there is no " +
                                *criterion.metric + " to compare"};
  }
  return {measurement.exit_code == 0 ? Verdict::kGood : Verdict::kBad,
          exit_text(measurement.exit_code)};
}

/// Whether a measurement can be the reference of others.
Judgement judge_reference(const Criterion& criterion, const Measurement& measurement) {
  if (measurement.evidence == Evidence::kExitCode) return judge_exit(criterion, measurement);
  if (measurement.exit_code != 0) {
    return {Verdict::kBad, "it exited with code " + std::to_string(measurement.exit_code)};
  }
  const Judgement present = judge_presence(criterion, measurement);
  if (present.verdict != Verdict::kGood) return present;
  const std::string empty = emptiness_of(criterion, measurement.metrics);
  if (!empty.empty()) return {Verdict::kSkip, "it can be no reference: " + empty};
  return present;
}

}  // namespace

bool Criterion::needs_log_probs() const { return metric == kForwardLogpMaxDiff; }

void check_tolerance(const Criterion& criterion, const Measurement& reference) {
  if (criterion.tolerance == 0) return;
  const bool digests =
      reference.evidence == Evidence::kDump && criterion.metric.value_or(kWeights) == kWeights;
  if (!digests && reference.evidence != Evidence::kExitCode) return;
  throw Error(
      ErrorCode::kUsage,
      std::string("--tolerance says how far a number may lie, and what is compared here, ") +
          (digests ? "digests of weights" : "exit codes") +
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

Judgement judge_repetition(const Criterion& criterion, const Measurement& first,
                           const Measurement& second) {
  if (second.kind != RunKind::kRan || second.evidence != Evidence::kExitCode ||
      first.evidence != second.evidence) {
    return judge(criterion, &first, second);
  }
  if (second.exit_code == first.exit_code) return {Verdict::kGood, exit_text(second.exit_code)};
  return {Verdict::kBad, exit_text(second.exit_code) + " where the first run had " +
                             std::to_string(first.exit_code)};
}

Judgement judge(const Criterion& criterion, const Measurement* reference,
                const Measurement& measurement) {
  const bool ended = measurement.kind == RunKind::kRan || measurement.kind == RunKind::kCrashed;
  if (ended && is_named(criterion, measurement.exit_code)) {
    return {Verdict::kBad, exit_text(measurement.exit_code) + ", which --bad-exit names"};
  }
  if (measurement.kind != RunKind::kRan) {
    const bool git_says_bad =
        measurement.kind == RunKind::kCrashed && measurement.exit_code < kFirstUnstarted + 2;
    return {Verdict::kSkip,
            measurement.problem + (git_says_bad ? " (git bisect run would call this bad; so does "
                                                  "--bad-exit " +
                                                      std::to_string(measurement.exit_code) + ")"
                                                : "")};
  }
  if (reference == nullptr || (measurement.evidence == Evidence::kExitCode &&
                               reference->evidence == measurement.evidence)) {
    return judge_reference(criterion, measurement);
  }
  if (reference->evidence != measurement.evidence) {
    const std::string code = measurement.evidence == Evidence::kExitCode
                                 ? " (" + exit_text(measurement.exit_code) + ")"
                                 : "";
    return {Verdict::kSkip, "the run left " + to_string(measurement.evidence) + code +
                                " where the reference has " + to_string(reference->evidence)};
  }
  Judgement judgement = measurement.evidence == Evidence::kDump
                            ? judge_dump(criterion, *reference, measurement)
                            : judge_metrics(criterion, reference->metrics, measurement.metrics);
  // A check of the run's own may have failed: its word and its output must not contradict.
  if (judgement.verdict == Verdict::kGood && measurement.exit_code != reference->exit_code) {
    return {Verdict::kSkip, "the run exited with code " + std::to_string(measurement.exit_code) +
                                ", yet what it left agrees with the reference"};
  }
  return judgement;
}

}  // namespace rlreplay::measure
