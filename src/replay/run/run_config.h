#pragma once

#include "kernels/rotary_table.h"
#include "src/engine/rollout.h"
#include "src/engine/step.h"
#include "src/replay/options/options.h"

/// What the engine is told, from the options of a run.
namespace rlreplay::replay {

/// The angles of rotary positions: as Hugging Face computes them, or exact, as --rope says.
[[nodiscard]] kernels::Rope rope(const RunOptions& options);

/// How responses are drawn: they stop at the ids of the model and those of the options.
[[nodiscard]] engine::RolloutConfig rollout_config(const RunOptions& options,
                                                   const ModelConfig& model);

/// How a step is taken, but for the learning rate, which the schedule gives for each step.
[[nodiscard]] engine::StepConfig step_config(const RunOptions& options);

}  // namespace rlreplay::replay
