#pragma once

#include <span>
#include <vector>

#include "format/foreign/train_shard.h"
#include "format/foreign/tree_check.h"

namespace rlreplay::foreign {

/// The columns that a file lacks and another one of `shards` has, which should have the same (`of`
/// says why: "of the same samples"): a replica-mismatch each. Ranks of a pipeline's earlier stages
/// lack all that the last one computes. Columns of check_columns and of the schedule of
/// micro-batches are not asked for.
[[nodiscard]] std::vector<Problem> missing_columns(std::span<const TrainShard* const> shards,
                                                   const char* of);

}  // namespace rlreplay::foreign
