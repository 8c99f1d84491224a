#pragma once

#include <span>
#include <vector>

#include "format/foreign/train_shard.h"
#include "format/foreign/tree_check.h"

namespace rlreplay::foreign {

/// Of files that should have the same columns (`of`: "of the same samples") those that lack one
/// which another has: a replica-mismatch each. Ranks of a pipeline's earlier stages lack all that
/// the last one computes. Not asked here: check_columns' and those of the schedule of
/// micro-batches.
[[nodiscard]] std::vector<Problem> missing_columns(std::span<const TrainShard* const> shards,
                                                   const char* of);

}  // namespace rlreplay::foreign
