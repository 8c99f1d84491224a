#pragma once

#include <span>
#include <vector>

#include "format/foreign/torch_file.h"
#include "format/foreign/tree_check.h"
#include "src/replay/exchange/train_schedule.h"

namespace rlreplay::replay {

/// A schedule-mismatch for what the samples of slime's one file a rollout say of their places
/// against the shards that list them, and for samples that none lists. Other files have none.
[[nodiscard]] std::vector<foreign::Problem> check_shard_samples(
    const foreign::TorchFile& file, std::span<const ScheduleShard> shards);

}  // namespace rlreplay::replay
