#pragma once

#include <string>
#include <vector>

#include "src/replay/record/recorded_step.h"

namespace rlreplay::replay {

/// Columns that some samples of a rollout or step have alone, a sentence each: what a sample lacks
/// is held against nothing. Checks of their own judge files `of_framework`, but for two columns of
/// a rollout. `joins`: no rank of a step contradicts another.
[[nodiscard]] std::vector<std::string> lacking_columns(const RecordedRun& run,
                                                       const RecordedRollout& rollout,
                                                       bool of_framework, bool joins);

}  // namespace rlreplay::replay
