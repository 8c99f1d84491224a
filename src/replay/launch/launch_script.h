#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/replay/launch/launch.h"

namespace rlreplay::replay {

/// The shell script that a command runs: the first of its words that names one, before any option
/// of the run; nothing where there is none. What it reads from other files is not followed.
[[nodiscard]] std::optional<LaunchScript> find_script(const std::vector<std::string>& command);

}  // namespace rlreplay::replay
