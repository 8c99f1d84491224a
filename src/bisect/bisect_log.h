#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/replay/measure/judgement.h"

namespace rlreplay::bisect {

/// What a log of `git bisect log` says of commits, in its order, by the names that stand in it.
/// Of commits that the search was started with, its comments say it; terms of the user's own count.
/// Errors: kIncomplete, kCorrupt where no line says anything.
[[nodiscard]] std::vector<std::pair<std::string, measure::Verdict>> read_bisect_log(
    const std::string& path);

}  // namespace rlreplay::bisect
