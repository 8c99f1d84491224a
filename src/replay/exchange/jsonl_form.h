#pragma once

#include "format/rollout_data.h"
#include "format/train_data.h"

namespace rlreplay::replay::jsonl {

/// Leaves of the data what an import of its lines gives: zeros for prompts, no columns of no calls,
/// names in the alphabet's order where lines have no other.
void keep_what_lines_say(format::RolloutData& data);
void keep_what_lines_say(format::TrainData& data);

}  // namespace rlreplay::replay::jsonl
