#pragma once

#include <span>
#include <string>

#include "src/replay/inspect/objective_check.h"

namespace rlreplay::replay {

/// The flags that were given, ` --name VALUE` each, or, where one explanation alone explains all
/// that is not reproduced, in all steps, and options say it, those with what it found.
[[nodiscard]] std::string flags_with_found(const std::string& given,
                                           const ObjectiveOptions& options,
                                           std::span<const ObjectiveStep> steps);

}  // namespace rlreplay::replay
