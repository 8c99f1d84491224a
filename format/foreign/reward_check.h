#pragma once

#include "format/foreign/dump_check.h"

namespace rlreplay::foreign {

/// Of a rollout's samples whose rewards are dicts: the numbers that some of them have, and those
/// samples that lack one. A sample is named once, with the first that it lacks.
void check_reward_dicts(const Tree& tree, const Sequence& samples, const ProblemSink& sink);

}  // namespace rlreplay::foreign
