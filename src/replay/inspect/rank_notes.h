#pragma once

#include <string>
#include <vector>

#include "src/replay/inspect/unread_rollouts.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::replay {

/// What ranks may say differently, and do: a sentence for each step but those of `unread`.
[[nodiscard]] std::vector<std::string> rank_notes(const RecordedRun& run, UnreadRollouts& unread);

}  // namespace rlreplay::replay
