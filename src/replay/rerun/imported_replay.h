#pragma once

#include <vector>

#include "src/replay/options/replay_options.h"
#include "src/replay/record/recorded_run.h"
#include "src/replay/rerun/replay.h"
#include "src/replay/run/run.h"

/// Steps that another framework took, taken again from given weights: its advantages, old and
/// reference log-probabilities and masks are used as they are where they were recorded, and else
/// computed by the options.
namespace rlreplay::replay {

/// What can be taken again of an imported dump.
struct ImportedSteps {
  std::vector<StepId> ids;         // in order: places of a ReplayPlan are places in it
  std::vector<RecordGives> gives;  // of each
  Workload workload;               // of the longest prompt and sample and the largest step
};

/// What the record has of all steps of the plan.
[[nodiscard]] RecordGives gives_of(const ImportedSteps& steps, const ReplayPlan& plan);

/// The steps of an imported dump, with what its record gives of each.
/// Errors: kUsage where the dump holds no samples.
[[nodiscard]] ImportedSteps imported_steps(const RecordedRun& record, const RunOptions& options);

/// `steps`: imported_steps'. Takes those of the plan; the trainer's weights are those before the
/// first of them, and go on from its own updates. A rollout that no recorded step trained on is cut
/// into steps by the options. Errors: kIncomplete where neither an advantage nor the reward and
/// group from which to compute it was recorded, and where a rollout is begun in its middle without
/// old log-probabilities; those of check_nuclei and check_inputs.
void replay_imported(const RecordedRun& record, const RunOptions& options, const ReplayPlan& plan,
                     const ImportedSteps& steps, Trainer& trainer, RunObserver& observer);

}  // namespace rlreplay::replay
