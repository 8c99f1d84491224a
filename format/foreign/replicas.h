#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "format/foreign/train_shard.h"
#include "format/foreign/tree_check.h"
#include "format/foreign/tree_difference.h"

namespace rlreplay::foreign {

/// Two files of the same samples both have what each rank of them is given whole, and have it of
/// each sample. Errors: kCorrupt, naming the column and both files.
void check_columns(const TrainShard& of, const TrainShard& first);

/// What the files of two ranks that hold the same samples say differently, of all that is not cut:
/// a replica-mismatch for each column and sample. `same_slice`: whether they are the same rank of
/// context parallelism; of two others, columns that nobody knows may be cut.
[[nodiscard]] std::vector<Problem> compare_replicas(const TrainShard& of, const TrainShard& first,
                                                    bool same_slice);

/// A column of one rank that differs from another's; `at` names the sample and both values.
[[nodiscard]] Problem replica_problem(const TrainShard& of, const TrainShard& first,
                                      std::string_view column, const TreeDifference& at);

}  // namespace rlreplay::foreign
