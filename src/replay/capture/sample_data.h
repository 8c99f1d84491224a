#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "format/rollout_data.h"
#include "format/train_data.h"
#include "src/replay/run/run_task.h"
#include "src/replay/run/trainer.h"

/// Between the engine's samples and the columns of a dump.
namespace rlreplay::replay {

/// A rollout as its unit holds it: the samples in their order, with groups, rewards, masks,
/// log-probabilities, texts, and how each ended. It owns its values: another thread may store it.
[[nodiscard]] std::shared_ptr<const format::RolloutData> rollout_data(const RolloutBatch& batch);

/// A step as its unit holds it: its samples' masks, scores and targets, and the step's numbers. A
/// column is absent where a sample has no values for it.
[[nodiscard]] std::shared_ptr<const format::TrainData> train_data(
    const StepOutcome& outcome, std::span<const Sample> samples,
    std::span<const SampleTargets> targets);

/// The named numbers of a step, as a dump holds them.
[[nodiscard]] format::NamedColumns step_scalars(const StepOutcome& outcome);

}  // namespace rlreplay::replay
