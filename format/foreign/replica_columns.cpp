#include "format/foreign/replica_columns.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>

#include "format/foreign/replicas.h"

namespace rlreplay::foreign {
namespace {

/// What only the last stage of a pipeline computes.
constexpr auto kComputed =
    std::to_array<std::string_view>({"log_probs", "ref_log_probs", "entropy", "ref_entropy",
                                     "values", "returns", "advantages", "kl"});

/// What every stage is given.
constexpr auto kGiven = std::to_array<std::string_view>(
    {"rollout_log_probs", "raw_reward", "local_raw_reward", "dynamic_global_batch_size"});

constexpr auto kElsewhere = std::to_array<std::string_view>(
    {"micro_batch_indices", "num_microbatches", "global_batch_sizes", "num_rollouts"});

bool is_there(const TrainShard& shard, std::string_view column) {
  const Value* value = shard.batch_value(column);
  return shard.has(column) || (value != nullptr && value->kind != Kind::kNone);
}

bool computes(const TrainShard& shard) {
  return std::ranges::any_of(kComputed, [&](std::string_view name) { return shard.has(name); });
}

/// The columns, and of each the first file that has it.
std::map<std::string, const TrainShard*> columns_of(std::span<const TrainShard* const> shards) {
  std::map<std::string, const TrainShard*> out;
  for (const TrainShard* shard : shards) {
    for (const std::string& column : shard->columns()) {
      if (is_there(*shard, column)) out.emplace(column, shard);
    }
    for (const std::string_view column : kGiven) {
      if (is_there(*shard, column)) out.emplace(column, shard);
    }
  }
  for (const std::string_view column : kElsewhere) out.erase(std::string(column));
  return out;
}

}  // namespace

std::vector<Problem> missing_columns(std::span<const TrainShard* const> shards, const char* of) {
  std::vector<Problem> problems;
  const auto columns = columns_of(shards);
  const bool computed = std::ranges::any_of(shards, [](auto* shard) { return computes(*shard); });
  for (const TrainShard* shard : shards) {
    const bool earlier_stage = computed && !computes(*shard);
    for (const auto& [column, has] : columns) {
      if (is_there(*shard, column)) continue;
      if (earlier_stage && std::ranges::count(kGiven, column) == 0) continue;
      problems.push_back({"replica-mismatch",
                          column + " is missing in " + file_name(*shard) + ", and " +
                              file_name(*has) + " has it, " + of,
                          shard->path()});
    }
  }
  return problems;
}

}  // namespace rlreplay::foreign
