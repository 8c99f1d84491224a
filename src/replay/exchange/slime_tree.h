#pragma once

#include <set>

#include "format/foreign/tree.h"
#include "format/rollout_data.h"

namespace rlreplay::replay {

/// A rollout as the dict that slime saves and its --load-debug-rollout-data takes. What slime has
/// no field for lies in each sample's metadata, under `rlreplay`; there `other_inputs` of samples
/// that were made from more than their tokens, which are not written.
[[nodiscard]] foreign::Value slime_rollout(foreign::Tree& tree, const format::RolloutData& data,
                                           int64_t rollout_id,
                                           const std::set<uint64_t>& with_inputs);

}  // namespace rlreplay::replay
