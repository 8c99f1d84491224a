#pragma once

#include "format/foreign/tree.h"
#include "format/rollout_data.h"

namespace rlreplay::replay {

/// A rollout as the dict that slime saves and its --load-debug-rollout-data takes. What slime has
/// no field for lies in each sample's metadata, under `rlreplay`.
foreign::Value slime_rollout(foreign::Tree& tree, const format::RolloutData& data,
                             int64_t rollout_id);

}  // namespace rlreplay::replay
