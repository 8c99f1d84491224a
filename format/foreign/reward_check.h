#pragma once

#include "format/foreign/dump_check.h"

namespace rlreplay::foreign {

/// Reports samples of a rollout whose reward is no number among numbers, or no dict among dicts,
/// and dicts that lack a number which other samples have there.
void check_rewards(const Tree& tree, const Sequence& samples, const ProblemSink& sink);

}  // namespace rlreplay::foreign
