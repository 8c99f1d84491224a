#pragma once

#include <vector>

#include "src/replay/compare/causes.h"
#include "src/replay/compare/data_difference.h"

namespace rlreplay::replay {

/// Why two dumps differ at a step (or rollout), and no later: what they say of their runs, then the
/// state before the first step and the first place of each kind of what the runs were given:
/// prompts, tokens, rewards, masks, advantages. Errors: FormatError, kCorrupt.
[[nodiscard]] std::vector<Cause> find_causes(const format::DumpReader& a,
                                             const format::DumpReader& b,
                                             const DataDifference& data,
                                             const format::GroupName& at);

}  // namespace rlreplay::replay
