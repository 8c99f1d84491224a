#pragma once

#include <span>
#include <vector>

#include "format/foreign/torch_file.h"
#include "format/foreign/tree_check.h"
#include "src/replay/exchange/train_schedule.h"

namespace rlreplay::replay {

/// Of slime's one file a rollout: what its samples say of their places against the shards that
/// list them, or that none lists them, a schedule-mismatch each. Nothing of files of other forms.
[[nodiscard]] std::vector<foreign::Problem> check_shard_samples(
    const foreign::TorchFile& file, std::span<const ScheduleShard> shards);

}  // namespace rlreplay::replay
