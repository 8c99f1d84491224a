#include "src/bisect/drill_down.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/bisect/recorded_steps.h"
#include "src/replay/causes.h"
#include "src/replay/recomputed_difference.h"
#include "src/replay/run_difference.h"

namespace rlreplay::bisect {
using replay::RecordedRun;
using replay::RunDifference;
using replay::StepId;

namespace {

std::string describe_beyond(const RecordedRun& a, const RecordedRun& b, size_t common) {
  if (a.steps() == b.steps()) return {};
  const bool is_a = a.steps().size() > common;
  const StepId& step = is_a ? a.steps()[common] : b.steps()[common];
  return std::string(is_a ? "the first" : "the second") + " dump has step " + step.name() +
         ", which the other one lacks";
}

/// Whether both dumps are captures: an imported one cannot be run again.
bool can_be_run(const RecordedRun& run) {
  return !replay::imported_from(run.dump().meta(), run.path());
}

replay::DifferenceSide side_of(const RecordedRun& run, const StepId& step) {
  replay::DifferenceSide side{run, run.config().options};
  side.plan.first = std::ranges::find(run.steps(), step) - run.steps().begin();
  return side;
}

/// What caused the difference, and its element where the dumps are too coarse to show it.
void explain(const RecordedRun& a, const RecordedRun& b, DumpDifference& result) {
  const StepId step{result.step.origin->rollout_id, result.step.origin->step_id};
  try {
    result.report.causes = replay::find_causes(a, b, step);
    if (!replay::lacks_element(result.step) || !can_be_run(a) || !can_be_run(b)) return;
    auto finer = replay::recompute_difference(side_of(a, step), side_of(b, step), step);
    result.report.note = std::move(finer.note);
    if (finer.step) result.step = std::move(*finer.step);
  } catch (const Error& error) {
    // What was found stands, whether or not the dumps say enough to run them again.
    result.report.note = "what caused it is not known: " + error.where() + ": " + error.what();
  }
}

}  // namespace

DumpDifference compare_dumps(const std::string& path_a, const std::string& path_b) {
  const RecordedRun a = open_whole(path_a), b = open_whole(path_b);
  const auto apart =
      std::mismatch(a.steps().begin(), a.steps().end(), b.steps().begin(), b.steps().end());
  const auto common = static_cast<size_t>(apart.first - a.steps().begin());
  // Read, whatever the hashes say: a dump that cannot be read is no witness.
  RunDifference events = replay::compare_runs(a, b, replay::EqualContent::kRead);
  if (!events.skipped.empty()) {
    throw Error(ErrorCode::kIncomplete,
                events.skipped + " to compare: record with --record steps, tensors or ops",
                events.skipped_in);
  }
  DumpDifference result{std::move(events.step), events.compared, {}, {}};
  if (!result.step.identical()) {
    explain(a, b, result);
    return result;
  }
  result.beyond = describe_beyond(a, b, common);
  return result;
}

}  // namespace rlreplay::bisect
