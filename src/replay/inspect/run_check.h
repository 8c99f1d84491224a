#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "format/foreign/tree_check.h"

namespace rlreplay::replay {

/// Which rollouts of a run have their samples, and which have steps, against each other:
/// step-missing (of a rollout before the last that was trained on), sample-unknown (steps of a
/// rollout that is not there, though others are).
std::vector<foreign::Problem> check_run(const std::set<int64_t>& generated,
                                        const std::set<int64_t>& trained);

}  // namespace rlreplay::replay
