#pragma once

#include <string>
#include <vector>

#include "src/replay/record/recorded_step.h"

namespace rlreplay::replay {

/// Rewards and columns of tokens that some samples of a rollout or step have alone, a sentence
/// each: what a sample lacks is held against nothing. `of_steps`: of steps too; a check of its own
/// judges those in files of frameworks.
std::vector<std::string> lacking_columns(const RecordedRollout& rollout, bool of_steps);

}  // namespace rlreplay::replay
