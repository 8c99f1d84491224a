#pragma once

#include "src/replay/record/recorded_run.h"
#include "src/replay/rerun/replay.h"
#include "src/replay/run/run.h"

/// Steps that another framework took, taken again from given weights: its advantages, old and
/// reference log-probabilities and masks are used as they are where they were recorded, and else
/// computed by the options.
namespace rlreplay::replay {

/// The longest prompt and sample of an imported dump and its largest step, as far as memory goes.
/// Errors: kUsage where the dump holds no samples, or not the plan's steps.
Workload imported_workload(const RecordedRun& record, const RunOptions& options,
                           const ReplayPlan& plan);

/// `workload`: imported_workload's. Takes steps plan.first to plan.last, counted from 0 over the
/// whole dump; the trainer's weights are those before the first of them, and go on from its own
/// updates. A rollout that no recorded step trained on is cut into steps by the options. Errors:
/// kIncomplete where neither an advantage nor the reward and
/// group from which to compute it was recorded, and where a rollout is begun in its middle without
/// old log-probabilities; those of check_nuclei and check_inputs.
void replay_imported(const RecordedRun& record, const RunOptions& options, const ReplayPlan& plan,
                     const Workload& workload, Trainer& trainer, RunObserver& observer);

}  // namespace rlreplay::replay
