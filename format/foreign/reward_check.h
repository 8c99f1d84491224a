#pragma once

#include "format/foreign/dump_check.h"

namespace rlreplay::foreign {

/// Reports samples of a rollout whose rewards are dicts and lack a number that other samples have
/// there. A sample is named once, with the first that it lacks.
void check_reward_dicts(const Tree& tree, const Sequence& samples, const ProblemSink& sink);

}  // namespace rlreplay::foreign
