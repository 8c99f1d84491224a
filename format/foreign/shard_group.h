#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/foreign/context_slices.h"
#include "format/foreign/train_shard.h"

namespace rlreplay::foreign {

/// The files that hold the same samples: slices of context parallelism and their replicas.
struct ShardGroup {
  std::vector<const TrainShard*> shards;  // by rank
  int64_t cp_size = 1;
  std::vector<int64_t> cp_rank;  // of each shard

  size_t rows() const { return shards[0]->indices().size(); }
};

/// The files of a rollout by the samples that they hold, each group's in the order in which its
/// copies count: a pipeline's last stage first, then by rank.
/// Errors: kIncomplete where a rank's file is missing, kCorrupt where the files do not fit.
[[nodiscard]] std::vector<ShardGroup> group_shards(const std::vector<TrainShard>& shards);

/// That a column of a sample has another length than the rank's part of the response, in words.
[[nodiscard]] std::string other_length(std::string_view column, size_t found, int64_t cp_size,
                                       int64_t response);

/// The elements of a sample's response that a rank of context parallelism holds. Errors: kCorrupt.
[[nodiscard]] std::array<ResponseRange, 2> slices(const TrainShard& shard, size_t row,
                                                  int64_t cp_size, int64_t cp_rank);

/// Whether some rank of context parallelism, of up to 64, holds so many elements of a response.
/// Errors: kCorrupt.
[[nodiscard]] bool fits_some_slice(const TrainShard& shard, size_t row, size_t size);

/// Finds how the responses of a group are cut: by what its files say, else by the lengths of their
/// columns. Errors: kCorrupt for a column of another length than its slice, kIncomplete.
void find_cut(ShardGroup& group);

/// The file that says another's place, in a group of which no file says one of the places and
/// another file at that place has other slices; null where a file is missing.
[[nodiscard]] const TrainShard* find_misplaced(const ShardGroup& group);

/// Whether the shard has numbers of any sample in the column.
[[nodiscard]] bool fills(const TrainShard& shard, std::string_view column);

/// "ranks 0, 2".
[[nodiscard]] std::string ranks_text(const std::vector<const TrainShard*>& shards);

}  // namespace rlreplay::foreign
