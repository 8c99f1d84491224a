#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/replay/launch/launch.h"

namespace rlreplay::replay {

/// The shell script that a command runs: the first of its words that names one, before any option
/// of the run, or the text behind a shell's -c; nothing where there is none. What it reads from
/// other files is not followed. Errors: kUsage for a text behind -c that hands on its arguments,
/// and no word behind it: the first one is none of them, but its name.
[[nodiscard]] std::optional<LaunchScript> find_script(const std::vector<std::string>& command);

/// The value that a word gives to a variable: of NAME=VALUE, of "NAME": "VALUE" in JSON, or of one
/// of them behind a comma; nothing for another word.
[[nodiscard]] std::optional<std::string> value_given(std::string_view word,
                                                     const std::string& name);

}  // namespace rlreplay::replay
