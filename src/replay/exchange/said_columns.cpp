#include "src/replay/exchange/said_columns.h"

#include <utility>

#include "src/replay/exchange/import_rollout.h"
#include "src/replay/exchange/training_copy.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::kTrainColumns;
using foreign::Repeats;
using foreign::TrainColumn;
using foreign::TrainShard;
using foreign::Tree;
using foreign::Value;

/// What slime's training has of a sample whose metadata names no source.
constexpr std::string_view kNoSource = "unknown";

constexpr std::string_view kIds = "rollout_ids";

/// Columns that training has only of samples that say them.
bool is_said_first(const TrainColumn& column) {
  return column.repeats != Repeats::kNothing && column.repeats != Repeats::kInMetadata;
}

/// What a sample's field holds; null where it is not there.
const Value* field_of(const Tree& tree, Value sample, const TrainColumn& column) {
  const Value* value = tree.find(sample, column.field);
  const bool source = column.name == "source_names";
  return source && value && foreign::is_record(*value) ? tree.find(*value, "source_name") : value;
}

bool is_there(const Tree& tree, const Value* value, const TrainColumn& column) {
  if (column.repeats == Repeats::kThere) return says_something(tree, value);
  return value != nullptr && value->kind != Kind::kNone;
}

/// Whether a None of training is held against the rollout here, and not where its values are, or
/// beside the other samples of its file.
bool is_missed(const TrainShard& shard, const TrainColumn& column) {
  if (column.repeats == Repeats::kThere) return repeats(shard, column.name);
  if (column.repeats != Repeats::kInSteps || !repeats(shard, column.name)) return false;
  for (size_t row = 0; row < shard.indices().size(); ++row) {
    if (copy_of(shard, row, column.name)) return false;
  }
  return true;
}

}  // namespace

SaidColumns::SaidColumns(const foreign::TorchFile& rollout) {
  const Tree& tree = rollout.tree();
  const Value* samples = tree.find(rollout.root(), "samples");
  bool known = true;
  if (samples != nullptr && !has_index_as_id(rollout)) counted_ = tree.sequence(*samples).size();
  for (size_t i = 0; samples != nullptr && i < tree.sequence(*samples).size(); ++i) {
    const Value sample = tree.sequence(*samples)[i];
    Columns there;
    for (size_t k = 0; k < kTrainColumns.size(); ++k) {
      if (!is_said_first(kTrainColumns[k])) continue;
      const Value* value = field_of(tree, sample, kTrainColumns[k]);
      named_[k] = named_[k] || tree.find(sample, kTrainColumns[k].field) != nullptr;
      there[k] = is_there(tree, value, kTrainColumns[k]);
    }
    held_ |= there;
    const auto id = tree.integer(sample, "rollout_id");
    if (id && !has_index_as_id(rollout)) ids_.insert(*id);
    const auto index = tree.integer(sample, "index");
    known = known && index && there_.emplace(*index, there).second;
  }
  if (!known) there_.clear();
}

/// Whether training can have the cell from the sample's field alone: of one that names no source,
/// or no id, the trainer names one itself, an id that no sample has.
bool SaidColumns::needs_said(const Tree& tree, Value copy, const TrainColumn& column) const {
  if (column.name == kIds) return copy.kind == Kind::kInt && ids_.contains(copy.integer);
  const bool none =
      column.name == "source_names" && copy.kind == Kind::kText && tree.text(copy) == kNoSource;
  return !none && says_something(tree, &copy);
}

/// The trainer counts samples without an id from 0, or gives each its index.
bool SaidColumns::names_nobody(Value id, int64_t index) const {
  const bool counted = id.integer >= 0 && std::cmp_less(id.integer, *counted_);
  return id.kind == Kind::kInt && !counted && id.integer != index;
}

std::vector<foreign::Problem> SaidColumns::compare(const foreign::TorchFile& training) const {
  std::vector<foreign::Problem> problems;
  const TrainShard shard(training);
  const bool own = training.tree().find(training.root(), "rlreplay") != nullptr;
  for (size_t k = 0; k < kTrainColumns.size(); ++k) {
    const TrainColumn& column = kTrainColumns[k];
    // A trainer computes what no sample has where it has the teacher itself; exports of ours write
    // None for what was not recorded.
    const bool by_any = own || column.repeats == Repeats::kRounded;
    if (!is_said_first(column) || !(by_any ? held_ : named_)[k]) continue;
    const bool both_ways = is_missed(shard, column);
    for (size_t row = 0; row < shard.indices().size(); ++row) {
      const int64_t index = shard.indices()[row];
      const auto said = there_.find(index);
      if (said == there_.end() || (said->second[k] && !both_ways)) continue;
      const auto copy = copy_of(shard, row, column.name);
      const bool nobody =
          copy && column.name == kIds && counted_ && !own && names_nobody(*copy, index);
      const bool has = copy && (nobody || needs_said(shard.tree(), *copy, column));
      if (has == said->second[k]) continue;
      problems.push_back(rollout_mismatch(shard, column.name, index, "",
                                          has ? size_text(shard.tree(), *copy) : "None",
                                          has ? "None" : "a value"));
    }
  }
  return problems;
}

}  // namespace rlreplay::replay
