#pragma once

#include <optional>
#include <string>

#include "src/replay/compare/step_difference.h"
#include "src/replay/record/recorded_run.h"
#include "src/replay/rerun/replay.h"

/// Where a record is too coarse to name the element in which two runs part, the step is computed
/// again with values, on both sides.
namespace rlreplay::replay {

/// One of the two runs.
struct DifferenceSide {
  const RecordedRun& record;
  RunOptions options;
  ReplayPlan plan = {};
  /// Whether it is the run that the record says, so that the events must come out as recorded.
  bool as_recorded = true;
};

/// What computing a step again on both sides gave.
struct RecomputedDifference {
  std::optional<StepDifference> step;  // with values
  std::string note;                    // what was computed, or why it was not
};

/// Computes `step`, the first that differs, again on both sides and compares. Nothing is thrown for
/// what a record lacks: the note says it.
[[nodiscard]] RecomputedDifference recompute_difference(const DifferenceSide& a,
                                                        const DifferenceSide& b,
                                                        const StepId& step);

/// Adds the element to `difference`, what the events of two dumps show, by computing it again where
/// it is not known. Returns the note that says so, or why it was not; empty for nothing to be done.
[[nodiscard]] std::string find_element(const RecordedRun& a, const RecordedRun& b,
                                       StepDifference& difference);

}  // namespace rlreplay::replay
