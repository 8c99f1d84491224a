#pragma once

#include "format/foreign/dump_check.h"

namespace rlreplay::foreign {

/// Reports what the samples of a rollout's dump say against themselves and each other.
void check_rollout_samples(const Tree& tree, Value root, const ProblemSink& sink);

}  // namespace rlreplay::foreign
