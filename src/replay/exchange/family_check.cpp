#include "src/replay/exchange/family_check.h"

#include <algorithm>
#include <set>

#include "format/foreign/train_batch.h"
#include "format/foreign/train_shard.h"
#include "src/base/error.h"

namespace rlreplay::replay {
namespace {

using foreign::Problem;
using foreign::TorchFile;
using foreign::TrainShard;

std::string rollout_name(const TrainShard& shard) {
  return "rollout " + std::to_string(shard.rollout_id());
}

/// Ranks are counted from 0; Miles since 2026-09 writes those of tensor rank 0 alone, so numbers
/// may be left out where no sample is.
void check_batch_size(const std::vector<TrainShard>& shards, std::vector<Problem>& problems) {
  double wanted = 0;
  for (const char* name : {"num_rollouts", "global_batch_sizes"}) {
    const auto sizes = shards.front().batch_column(name);
    for (size_t i = 0; sizes && i < sizes->size(); ++i) wanted += sizes->real(i);
    if (wanted > 0) break;
  }
  std::set<double> found;
  std::set<int64_t> ranks;
  for (const TrainShard& shard : shards) {
    ranks.insert(shard.rank());
    for (size_t row = 0; row < shard.indices().size(); ++row) {
      const auto id = shard.scalar(row, "rollout_ids");
      found.insert(id.value_or(static_cast<double>(shard.indices()[row])));
    }
  }
  if (static_cast<double>(found.size()) >= wanted) return;
  std::string there;
  for (const int64_t rank : ranks) there += (there.empty() ? "" : ", ") + std::to_string(rank);
  problems.push_back({"rank-missing",
                      "the steps took " + std::to_string(static_cast<int64_t>(wanted)) +
                          " samples, the files of rank " + there + " hold " +
                          std::to_string(found.size()) + ": another rank's file is missing",
                      rollout_name(shards.front())});
}

}  // namespace

std::vector<Problem> check_family(std::span<const TorchFile* const> files) {
  std::vector<Problem> problems;
  std::vector<TrainShard> shards;
  try {
    for (const TorchFile* file : files) shards.emplace_back(*file);
    if (shards.empty()) return problems;
    check_batch_size(shards, problems);
    for (const Problem& found : assemble_train(files).findings) {
      // What was settled by a rule is no contradiction.
      if (found.code != "padding-removed" && found.code != "partial-column") {
        problems.push_back(found);
      }
    }
  } catch (const Error& error) {
    const bool incomplete = error.code() == ErrorCode::kIncomplete;
    problems.push_back({incomplete ? "slice-missing" : std::string(to_string(error.code())),
                        error.what(), error.where()});
  }
  return problems;
}

}  // namespace rlreplay::replay
