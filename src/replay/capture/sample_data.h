#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "format/rollout_data.h"
#include "format/train_data.h"
#include "src/replay/run/task.h"
#include "src/replay/run/trainer.h"

/// Between the engine's samples and the columns of a dump.
namespace rlreplay::replay {

std::shared_ptr<const format::RolloutData> rollout_data(const RolloutBatch& batch);
std::shared_ptr<const format::TrainData> train_data(const StepOutcome& outcome,
                                                    std::span<const Sample> samples,
                                                    std::span<const SampleTargets> targets);
/// The named numbers of a step, as a dump holds them.
format::NamedColumns step_scalars(const StepOutcome& outcome);

}  // namespace rlreplay::replay
