#include "src/bisect/current.h"

#include <filesystem>

#include "src/base/error.h"
#include "src/bisect/git.h"
#include "src/replay/measure/evidence.h"
#include "src/replay/measure/metric_selection.h"

namespace rlreplay::bisect {
namespace {

/// The shell's exit codes for a command that it cannot start.
constexpr int kNotExecutable = 126, kNotFound = 127;

Measurement read_reference(const Criterion& criterion, const std::string& path) {
  Measurement reference = measure::read_recorded(path, criterion.needs_log_probs());
  if (const auto& error = reference.unread) {
    // A breach is told of a path below the dump.
    const std::string where =
        error->breach() ? (std::filesystem::path(path) / error->where()).string() : error->where();
    throw Error(error->code(), "this is no reference: " + std::string(error->what()), where,
                error->breach());
  }
  if (reference.kind != measure::RunKind::kRan) {
    throw Error(ErrorCode::kCorrupt, "this is no reference: " + reference.problem, path);
  }
  const std::string missing = measure::missing_metric(criterion, reference);
  if (!missing.empty()) {
    throw Error(ErrorCode::kUsage, "this is no reference by --metric: " + missing, path);
  }
  const std::string empty = measure::emptiness_of(criterion, reference.metrics);
  if (!empty.empty()) throw Error(ErrorCode::kCorrupt, "this is no reference: " + empty, path);
  if (reference.evidence == measure::Evidence::kDump || !criterion.excluded.empty()) {
    const measure::Judgement itself = measure::judge(criterion, nullptr, reference);
    if (itself.verdict != measure::Verdict::kSkip) return reference;
    throw Error(ErrorCode::kUsage, "this is no reference: " + itself.reason, path);
  }
  return reference;
}

/// Builds and runs the checkout.
Measurement measure_current(const CurrentQuestion& question, RunPlace place,
                            const Interrupt& interrupt) {
  Workspace workspace(std::nullopt, interrupt);
  place.folder = workspace.add_run("current");
  const auto failed = build_checkout(question.recipe, place, workspace, interrupt);
  return failed ? *failed : run_checkout(question.recipe, place, workspace, interrupt);
}

}  // namespace

Judgement judge_current(const CurrentQuestion& question, const Interrupt& interrupt) {
  std::optional<Measurement> reference;
  RunPlace place;
  if (question.reference) {
    reference = read_reference(question.criterion, *question.reference);
    place.reference = std::filesystem::canonical(*question.reference);
    measure::check_tolerance(question.criterion, *reference);
  }
  place.checkout = std::filesystem::current_path();
  place.revision = try_resolve(place.checkout, "HEAD", interrupt.fd()).value_or(Revision()).id;
  const Measurement measurement = measure_current(question, place, interrupt);
  if (measurement.kind == measure::RunKind::kCrashed &&
      (measurement.exit_code == kNotExecutable || measurement.exit_code == kNotFound)) {
    throw Error(ErrorCode::kUsage,
                "the --run command cannot be run here, and every revision would be skipped: " +
                    measurement.problem);
  }
  const bool has_output = measurement.evidence == measure::Evidence::kMetrics ||
                          measurement.evidence == measure::Evidence::kDump;
  if (!reference && has_output) {
    throw Error(ErrorCode::kUsage,
                "the run left " + to_string(measurement.evidence) +
                    ", and there is nothing to compare it with: name what the good revision's run "
                    "left by --reference");
  }
  if (!reference && measurement.kind == measure::RunKind::kRan) {
    measure::check_tolerance(question.criterion, measurement);
  }
  return measure::judge(question.criterion, reference ? &*reference : nullptr, measurement);
}

Judgement judge_recorded(const Criterion& criterion, const std::string& reference,
                         const std::string& path) {
  const Measurement good = read_reference(criterion, reference);
  measure::check_tolerance(criterion, good);
  return measure::judge(criterion, &good,
                        measure::read_recorded(path, criterion.needs_log_probs()));
}

}  // namespace rlreplay::bisect
