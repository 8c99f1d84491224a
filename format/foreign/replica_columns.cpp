#include "format/foreign/replica_columns.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "format/foreign/train_columns.h"

namespace rlreplay::foreign {
namespace {

bool is_had_by(std::string_view column, HadBy ranks) {
  const TrainColumn* known = train_column(column);
  return known != nullptr && known->had_by == ranks;
}

bool is_there(const TrainShard& shard, std::string_view column) {
  const Value* value = shard.batch_value(column);
  return shard.has(column) || (value != nullptr && value->kind != Kind::kNone);
}

bool computes(const TrainShard& shard) {
  return std::ranges::any_of(kTrainColumns, [&](const TrainColumn& column) {
    return column.had_by == HadBy::kLastStage && shard.has(column.name);
  });
}

/// The columns, and of each the first file that has it.
std::map<std::string, const TrainShard*> columns_of(std::span<const TrainShard* const> shards) {
  std::map<std::string, const TrainShard*> out;
  for (const TrainShard* shard : shards) {
    for (const std::string& column : shard->columns()) {
      if (is_there(*shard, column)) out.emplace(column, shard);
    }
    for (const TrainColumn& column : kTrainColumns) {
      const bool is_given = column.had_by == HadBy::kEvery;
      if (is_given && is_there(*shard, column.name)) out.emplace(column.name, shard);
    }
  }
  std::erase_if(out, [](const auto& of) { return is_had_by(of.first, HadBy::kSchedule); });
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
      if (earlier_stage && !is_had_by(column, HadBy::kEvery)) continue;
      problems.push_back(
          {"replica-mismatch",
           column + " is missing in " + shard->name() + ", and " + has->name() + " has it, " + of,
           shard->path()});
    }
  }
  return problems;
}

}  // namespace rlreplay::foreign
