#pragma once

#include "src/objective/advantage.h"
#include "src/objective/token_objective.h"
#include "src/replay/options/options.h"

/// What the objective is told, from the options of a run.
namespace rlreplay::replay {

engine::Dialect dialect(const RunOptions& options);
engine::AdvantageConfig advantage_config(const RunOptions& options);
engine::ObjectiveConfig objective_config(const RunOptions& options);

/// Whether log-probabilities of a reference model are needed.
bool needs_reference(const RunOptions& options);

}  // namespace rlreplay::replay
