#pragma once

#include "src/replay/record/record_problem.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::replay {

/// All that read_recorded_rollout refuses of a rollout, what its steps say otherwise than its
/// samples (rollout-mismatch: the sampler's log-probabilities, which a trainer repeats), and what
/// check_replayable refuses of one that a run of ours recorded. Not checked are masks that are not
/// the rollout's: frameworks let their users change them.
/// Errors: FormatError.
[[nodiscard]] RecordFindings check_recorded_rollout(const RecordedRun& run, int64_t rollout);

/// Of an imported rollout whose samples have their places in the file for ids, no step names one:
/// in place of samples that no step has it is noted that this is not known.
void name_replaced(const RecordedRun& run, int64_t rollout, RecordFindings& found);

}  // namespace rlreplay::replay
