#pragma once

#include <string>
#include <vector>

#include "src/objective/advantage.h"
#include "src/objective/token_objective.h"
#include "src/replay/options/options.h"

/// What the objective is told, from the options of a run.
namespace rlreplay::replay {

/// The dialect: Miles' where the options name it, else slime's.
[[nodiscard]] engine::Dialect dialect(const RunOptions& options);

/// From rewards to advantages. The advantage estimator's name stands for this part and for the
/// policy loss of objective_config(): gspo and cispo have grpo's advantages.
/// Errors: kInternal for names that the option table does not have.
[[nodiscard]] engine::AdvantageConfig advantage_config(const RunOptions& options);

/// From log-probabilities and advantages to the loss. Errors: as advantage_config.
[[nodiscard]] engine::ObjectiveConfig objective_config(const RunOptions& options);

/// The dialect's estimators beside that of the options which give the same advantages, and those
/// which give the same policy loss of the same advantages.
[[nodiscard]] std::vector<std::string> same_advantages(const RunOptions& options);
[[nodiscard]] std::vector<std::string> same_policy_loss(const RunOptions& options);

/// Whether log-probabilities of a reference model are needed.
[[nodiscard]] bool needs_reference(const RunOptions& options);

}  // namespace rlreplay::replay
