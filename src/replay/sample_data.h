#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "format/rollout_data.h"
#include "format/train_data.h"
#include "src/replay/task.h"
#include "src/replay/trainer.h"

/// Between the engine's samples and the columns of a dump.
namespace rlreplay::replay {

std::shared_ptr<const format::RolloutData> rollout_data(const RolloutBatch& batch);
std::shared_ptr<const format::TrainData> train_data(const StepOutcome& outcome,
                                                    std::span<const engine::Sample> samples,
                                                    std::span<const engine::SampleTargets> targets);

/// The samples of a recorded rollout, as they were generated.
/// Errors: kIncomplete, naming a column that a replay needs and that was not recorded.
std::vector<engine::Sample> read_samples(const format::RolloutData& data);

/// Columns of floats of a recorded step, per response token, by the samples of the rollout.
std::vector<std::vector<float>> response_floats(const format::TrainData& data,
                                                const format::TokenFloats& column,
                                                std::span<const engine::Sample> samples);

}  // namespace rlreplay::replay
