#include "src/bisect/drill_down.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/bisect/recorded_steps.h"
#include "src/replay/exchange/dump_causes.h"
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

/// What caused the difference, and its element where the dumps are too coarse to show it.
void explain(const RecordedRun& a, const RecordedRun& b, DumpDifference& result) {
  const format::GroupName at{result.step.origin->rollout_id, result.step.origin->step_id};
  replay::DiffOptions until;
  until.last = at;
  until.trust_hashes = true;  // all that differs was read
  try {
    const auto data = replay::compare_data(a.dump(), b.dump(), until);
    result.report.causes = replay::find_causes(a.dump(), b.dump(), data, at);
  } catch (const Error& error) {
    // What was found stands, whether or not the dumps say what caused it.
    result.report.note = "what caused it is not known: " + error.where() + ": " + error.what();
    return;
  }
  result.report.note = replay::find_element(a, b, result.step);
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
