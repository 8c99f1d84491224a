#pragma once

#include <span>
#include <string>

#include "src/replay/inspect/objective_check.h"

namespace rlreplay::replay {

/// Tables of at most 80 columns: a line a step, one step in full, and what is known of each number
/// that is not reproduced; of a few steps, those first that are not, unless `all` is asked for.
[[nodiscard]] std::string objective_text(std::span<const ObjectiveStep> steps, bool all);

/// One line of rlreplay.objective/1.
[[nodiscard]] std::string objective_json(const ObjectiveStep& step);

}  // namespace rlreplay::replay
