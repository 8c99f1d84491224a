#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "format/rollout_data.h"
#include "format/train_data.h"
#include "src/engine/backend.h"
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

/// Weights, moments and counters before a step as datasets of the group, and back.
std::vector<format::Dataset> state_datasets(engine::Backend& backend, const std::string& group);
/// Errors: kIncomplete for a parameter that is missing, kCorrupt for one of another shape.
void read_state(const format::DumpReader& dump, const std::string& group, engine::Backend& backend);
/// The weights alone.
void read_weights(const format::DumpReader& dump, const std::string& group,
                  const engine::ParameterTable& parameters, std::span<float> weights);

}  // namespace rlreplay::replay
