#pragma once

#include <string>
#include <vector>

#include "src/replay/inspect/objective_check.h"

/// What is named beside an explanation.
namespace rlreplay::replay {

/// Options that reproduce as much in as many steps, each once: none where the dump itself recorded
/// the one that is named.
[[nodiscard]] std::vector<const Explanation*> named_rivals(const Explanation& e);

/// The settings of an explanation, then of up to three rivals; those that differ by the estimator
/// alone are one: "--advantage-estimator grpo, gspo or cispo".
[[nodiscard]] std::vector<std::string> settings_texts(const Explanation& e);

}  // namespace rlreplay::replay
