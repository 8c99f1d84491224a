#include "src/replay/measure/judgement.h"

#include <algorithm>
#include <utility>

#include "src/base/error.h"
#include "src/base/words.h"
#include "src/replay/measure/log_probs.h"
#include "src/replay/measure/measurement.h"
#include "src/replay/measure/metric_selection.h"

namespace rlreplay::measure {
namespace {

constexpr int kFirstUnstarted = 126;

std::string exit_text(int code) { return "exit code " + std::to_string(code); }

bool is_named(const Criterion& criterion, int code) {
  return std::ranges::find(criterion.bad_exits, code) != criterion.bad_exits.end();
}

/// Whether all that a dump holds decides, for want of weights.
bool by_content(const Criterion& criterion, const Measurement& reference) {
  return criterion.metrics.empty() && !reference.content.empty();
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

/// Whether digests of weights decide, of a dump.
bool by_weights(const Criterion& criterion) {
  return criterion.metrics.empty() || criterion.names(kWeights);
}

/// Whether recorded numbers decide, of a dump.
bool by_scalars(const Criterion& criterion) {
  return std::ranges::any_of(criterion.metrics, [](const std::string& metric) {
    return metric != kWeights && metric != kForwardLogpMaxDiff;
  });
}

/// What all of them say: bad where one does, good where all do.
Judgement all_of(const std::vector<Judgement>& parts) {
  for (const Verdict verdict : {Verdict::kBad, Verdict::kSkip}) {
    const auto at = std::ranges::find(parts, verdict, &Judgement::verdict);
    if (at != parts.end()) return *at;
  }
  return parts.front();
}

Judgement judge_dump(const Criterion& criterion, const Measurement& reference,
                     const Measurement& measurement) {
  const std::string other = other_steps(reference.steps, measurement.steps);
  if (!other.empty()) return {Verdict::kSkip, other};
  if (by_weights(criterion) && !same_contract(reference, measurement)) {
    return {Verdict::kSkip,
            "the dump was recorded under another contract of the bits than the reference, so their "
            "digests cannot be compared: name a number by --metric"};
  }
  std::vector<Judgement> parts;
  if (by_content(criterion, reference)) {
    parts.push_back(judge_content(reference, measurement));
  } else if (by_weights(criterion)) {
    parts.push_back(judge_weights(reference, measurement));
  }
  if (criterion.needs_log_probs()) {
    parts.push_back(judge_log_probs(criterion, reference, measurement));
  }
  if (by_scalars(criterion)) {
    parts.push_back(judge_metrics(criterion, reference.metrics, measurement.metrics));
  }
  Judgement judgement = all_of(parts);
  if (judgement.verdict == Verdict::kBad) judgement.reason += other_inputs(reference, measurement);
  return judgement;
}

/// Whether the metrics that are asked for are there, of a reference that left numbers.
Judgement judge_presence(const Criterion& criterion, const Measurement& measurement) {
  const bool dump = measurement.evidence == Evidence::kDump;
  const std::string missing = missing_metric(criterion, measurement);
  if (!missing.empty()) return {Verdict::kSkip, missing};
  if (dump && (by_weights(criterion) || criterion.needs_log_probs())) {
    const Judgement same = judge_dump(criterion, measurement, measurement);
    if (same.verdict != Verdict::kGood) return same;
  }
  return {Verdict::kGood, "the reference"};
}

Judgement judge_exit(const Criterion& criterion, const Measurement& measurement) {
  if (!criterion.metrics.empty()) {
    return {Verdict::kSkip, "the run left an exit code only, in which there is no " +
                                joined(criterion.metrics, ", ") + " to compare"};
  }
  return {measurement.exit_code == 0 ? Verdict::kGood : Verdict::kBad,
          measurement.problem.empty() ? exit_text(measurement.exit_code) : measurement.problem};
}

/// Whether a measurement can be the reference of others.
Judgement judge_reference(const Criterion& criterion, const Measurement& measurement) {
  if (measurement.evidence == Evidence::kExitCode) return judge_exit(criterion, measurement);
  if (measurement.exit_code != 0) {
    return {Verdict::kBad, "it exited with code " + std::to_string(measurement.exit_code)};
  }
  const Judgement present = judge_presence(criterion, measurement);
  if (present.verdict != Verdict::kGood) return present;
  if (measurement.evidence == Evidence::kMetrics) {
    const Judgement same = judge_metrics(criterion, measurement.metrics, measurement.metrics);
    if (same.verdict != Verdict::kGood) return same;
  }
  const std::string empty = emptiness_of(criterion, measurement.metrics);
  if (!empty.empty()) return {Verdict::kSkip, "it can be no reference: " + empty};
  return present;
}

Judgement judge_within(const Criterion& criterion, const Measurement& reference,
                       const Measurement& measurement) {
  return measurement.evidence == Evidence::kDump
             ? judge_dump(criterion, reference, measurement)
             : judge_metrics(criterion, reference.metrics, measurement.metrics);
}

/// Judges numbers by `tolerance` and, where noisy, by `bad_from`: grey is what lies between.
Judgement judge_numbers(const Criterion& criterion, const Measurement& reference,
                        const Measurement& measurement) {
  Judgement near = judge_within(criterion, reference, measurement);
  if (!criterion.bad_from || near.verdict != Verdict::kBad) return near;
  Criterion wide = criterion;
  wide.tolerance = *criterion.bad_from;
  Judgement far = judge_within(wide, reference, measurement);
  if (far.verdict == Verdict::kBad) return far;
  return {Verdict::kSkip, "too far off to be good and too near to be bad: " + near.reason,
          near.difference, true};
}

/// Whether a run ended with an exit code that --bad-exit names.
bool ended_as_named(const Criterion& criterion, const Measurement& measurement) {
  const bool ended = measurement.kind == RunKind::kRan || measurement.kind == RunKind::kCrashed;
  return ended && is_named(criterion, measurement.exit_code);
}

Judgement judge_same_exit(const Measurement& first, const Measurement& second) {
  if (second.exit_code == first.exit_code) return {Verdict::kGood, exit_text(second.exit_code)};
  const bool ran = first.kind == RunKind::kRan && second.kind == RunKind::kRan;
  if (ran && !first.problem.empty() && !second.problem.empty()) {  // what a pair of runs told
    return {Verdict::kBad, second.problem + "; before: " + first.problem};
  }
  return {Verdict::kBad, exit_text(second.exit_code) + " where the first run had " +
                             std::to_string(first.exit_code)};
}

}  // namespace

bool Criterion::names(std::string_view metric) const {
  return std::ranges::find(metrics, metric) != metrics.end();
}

bool Criterion::needs_log_probs() const { return names(kForwardLogpMaxDiff); }

void check_tolerance(const Criterion& criterion, const Measurement& reference) {
  if (criterion.tolerance == 0) return;
  const bool digests = reference.evidence == Evidence::kDump && by_weights(criterion);
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
  const bool named = ended_as_named(criterion, first);
  if (named && ended_as_named(criterion, second)) return judge_same_exit(first, second);
  const bool has_run = second.kind == RunKind::kRan || second.kind == RunKind::kCrashed;
  if (named && has_run) {
    return {Verdict::kBad, "it ended as --bad-exit names it, " + exit_text(first.exit_code) +
                               ", and no longer does"};
  }
  if (second.kind != RunKind::kRan || second.evidence != Evidence::kExitCode ||
      first.evidence != second.evidence) {
    return judge(criterion, &first, second);
  }
  return judge_same_exit(first, second);
}

Judgement judge(const Criterion& criterion, const Measurement* reference,
                const Measurement& measurement) {
  if (ended_as_named(criterion, measurement)) {
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
  Judgement judgement = judge_numbers(criterion, *reference, measurement);
  // A check of the run's own may have failed: its word and its output must not contradict.
  if (judgement.verdict == Verdict::kGood && measurement.exit_code != reference->exit_code) {
    return {Verdict::kSkip, "the run exited with code " + std::to_string(measurement.exit_code) +
                                ", yet what it left agrees with the reference"};
  }
  return judgement;
}

}  // namespace rlreplay::measure
