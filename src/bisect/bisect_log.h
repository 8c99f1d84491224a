#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/replay/measure/judgement.h"

namespace rlreplay::bisect {

/// What a log of `git bisect log` says of commits, in its order, by the names that stand in it.
/// Comments, terms of the user's own and the line that starts the search say nothing.
/// Errors: kIncomplete, kCorrupt where no line says anything.
[[nodiscard]] std::vector<std::pair<std::string, measure::Verdict>> read_bisect_log(
    const std::string& path);

}  // namespace rlreplay::bisect
