#include "src/bisect/verdict.h"

#include "src/base/error.h"
#include "src/bisect/dumps.h"
#include "src/bisect/outcome.h"

namespace rlreplay::bisect {
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
