#pragma once

#include "kernels/rotary_table.h"
#include "src/engine/rollout.h"
#include "src/engine/step.h"
#include "src/replay/options/options.h"

/// What the engine is told, from the options of a run.
namespace rlreplay::replay {

kernels::Rope rope(const RunOptions& options);
engine::RolloutConfig rollout_config(const RunOptions& options, const ModelConfig& model);
/// Everything but the rate, which the schedule gives for each step.
engine::StepConfig step_config(const RunOptions& options);

}  // namespace rlreplay::replay
