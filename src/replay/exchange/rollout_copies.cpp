#include "src/replay/exchange/rollout_copies.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "format/foreign/train_shard.h"
#include "format/foreign/tree_difference.h"
#include "format/foreign/tree_hash.h"
#include "src/base/number_text.h"
#include "src/base/same_value.h"
#include "src/base/words.h"
#include "src/replay/exchange/training_copy.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::kTrainColumns;
using foreign::Numbers;
using foreign::Problem;
using foreign::Repeats;
using foreign::TorchFile;
using foreign::TrainColumn;
using foreign::TrainShard;
using foreign::Tree;
using foreign::Value;

bool is_compared(const TrainColumn& column) {
  using enum Repeats;
  return column.repeats == kShort || column.repeats == kLong || column.repeats == kRounded;
}

const Value* field(const Tree& tree, Value sample, std::string_view key) {
  const Value* value = tree.find(sample, key);
  return value == nullptr || value->kind == Kind::kNone ? nullptr : value;
}

/// The samples of a rollout's file by index; empty where an index is missing or occurs twice.
std::map<int64_t, Value> by_index(const TorchFile& file) {
  const Tree& tree = file.tree();
  std::map<int64_t, Value> out;
  const Value* samples = tree.find(file.root(), "samples");
  for (size_t i = 0; samples != nullptr && i < tree.sequence(*samples).size(); ++i) {
    const Value sample = tree.sequence(*samples)[i];
    const Value* index = field(tree, sample, "index");
    if (index == nullptr || index->kind != Kind::kInt) return {};
    if (!out.emplace(index->integer, sample).second) return {};
  }
  return out;
}

/// What a sample says that the column should repeat; nothing where it says none of it.
std::optional<Value> said_of(const TorchFile& file, Value sample, const TrainColumn& column) {
  const Tree& tree = file.tree();
  const Value* of = field(tree, sample, column.field);
  if (of == nullptr) {
    if (column.name != "rollout_ids" || !has_index_as_id(file)) return std::nullopt;
    of = field(tree, sample, "index");
  }
  if (of == nullptr) return std::nullopt;
  if (column.name == "truncated") {
    if (of->kind != Kind::kText) return std::nullopt;
    return Value::of_int(tree.text(*of) == "truncated" ? 1 : 0);
  }
  if (column.name != "source_names") return *of;
  const Value* name = foreign::is_record(*of) ? field(tree, *of, "source_name") : nullptr;
  return name == nullptr ? std::nullopt : std::optional(*name);
}

/// The numbers of a list, integers and floats as they come, or of a tensor; NaN for what is none.
std::vector<double> numbers_of(const Tree& tree, const Value* value) {
  std::vector<double> out;
  if (value == nullptr) return out;
  if (value->kind != Kind::kList) {
    const auto numbers = Numbers::of(tree, *value);
    for (size_t i = 0; numbers && i < numbers->size(); ++i) out.push_back(numbers->real(i));
    return out;
  }
  const foreign::Sequence& list = tree.sequence(*value);
  for (size_t i = 0; i < list.size(); ++i) {
    const Value item = list[i];
    out.push_back(item.kind == Kind::kFloat  ? item.real
                  : item.kind == Kind::kInt  ? static_cast<double>(item.integer)
                  : item.kind == Kind::kBool ? static_cast<double>(item.boolean)
                                             : std::nan(""));
  }
  return out;
}

/// Whether training data says raw rewards, be they none.
bool lists_rewards(const TrainShard& shard) {
  const Value* rewards = shard.batch_value("raw_reward");
  return rewards != nullptr && rewards->kind != Kind::kNone;
}

/// The first place at which a copy says more than rounding to bfloat16 or float16 can change.
std::optional<size_t> beyond_rounding(const Numbers& copy, const Numbers& of) {
  for (size_t i = 0; i < copy.size(); ++i) {
    const double found = copy.real(i), said = of.real(i);
    const double bound = std::fabs(said) * 0x1p-8 + 0x1p-24;
    if (!same_value(found, said) && !(std::fabs(found - said) <= bound)) return i;
  }
  return std::nullopt;
}

void compare_copies(const TrainShard& shard, const TorchFile& rollout,
                    const std::map<int64_t, Value>& samples, std::span<const TrainColumn> columns,
                    std::vector<Problem>& problems) {
  const Tree& tree = rollout.tree();
  for (size_t row = 0; row < shard.indices().size(); ++row) {
    const int64_t index = shard.indices()[row];
    const auto sample = samples.find(index);
    if (sample == samples.end()) continue;  // verify --deep: sample-unknown
    for (const TrainColumn& column : columns) {
      const auto copy = copy_of(shard, row, column.name);
      const auto said = said_of(rollout, sample->second, column);
      if (!said) continue;  // SaidColumns
      const auto x = column.repeats == Repeats::kRounded && copy ? Numbers::of(shard.tree(), *copy)
                                                                 : std::nullopt;
      const auto y = x ? Numbers::of(tree, *said) : std::nullopt;
      if (y && x->size() <= y->size()) {
        const auto at = x->size() == y->size() ? beyond_rounding(*x, *y) : std::nullopt;
        if (at) {
          problems.push_back(
              rollout_mismatch(shard, column.name, index, "[" + std::to_string(*at) + "]",
                               shortest_of(x->real(*at)), shortest_of(y->real(*at))));
        }
        continue;
      }
      const std::string whole = size_text(tree, *said);
      if (!copy) {
        problems.push_back(rollout_mismatch(shard, column.name, index, "", "None", whole));
        continue;
      }
      const auto found = tree_difference(shard.tree(), *copy, tree, *said);
      if (!found) continue;
      const std::string own = size_text(shard.tree(), *copy);
      const bool other_size = own != whole;
      problems.push_back(rollout_mismatch(shard, column.name, index, other_size ? "" : found->place,
                                          other_size ? own : found->a,
                                          other_size ? whole : found->b));
    }
  }
}

std::string reward_text(const std::optional<double>& reward) {
  return reward ? shortest_of(*reward) : "None";
}

/// Whether a trainer's copy of a reward is it, maybe in binary32.
bool is_copy(double copy, double of) {
  return same_value(copy, of) || same_value(copy, static_cast<float>(of));
}

/// The first place at which two say another reward, in words; nothing where there is none.
std::optional<std::string> other_reward(const std::vector<double>& a, const std::string& in_a,
                                        const std::vector<double>& b, const std::string& in_b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (same_value(a[i], b[i])) continue;
    return "raw_reward[" + std::to_string(i) + "] is " + shortest_of(a[i]) + " in " + in_a + ", " +
           shortest_of(b[i]) + " in " + in_b;
  }
  if (a.size() == b.size()) return std::nullopt;
  return "raw_reward is of " + counted(a.size(), "sample") + " in " + in_a + ", of " +
         std::to_string(b.size()) + " in " + in_b;
}

}  // namespace

std::vector<Problem> compare_raw_rewards(std::span<const TorchFile* const> files) {
  std::vector<Problem> problems;
  std::set<std::vector<int64_t>> seen;  // replicas are held to each other whole
  std::vector<double> said;
  std::string by;
  for (const TorchFile* file : files) {
    const TrainShard shard(*file);
    const std::vector<double> own = numbers_of(shard.tree(), shard.batch_value("raw_reward"));
    const bool of_its_samples = own.size() == shard.indices().size();
    if (!lists_rewards(shard) || of_its_samples || !seen.insert(shard.indices()).second) continue;
    if (by.empty()) {
      said = own;
      by = shard.name();
    } else if (const auto found = other_reward(own, shard.name(), said, by)) {
      problems.push_back({"replica-mismatch", *found + ", of the same rollout", shard.path()});
    }
  }
  return problems;
}

void RolloutCopies::add(const ImportedRollout& rollout, const TorchFile& file) {
  Rollout made{file.path(), rollout.raw_rewards, SaidColumns(file), MetadataCopies(file), {}, {},
               {}};
  const Tree& tree = file.tree();
  const foreign::Sequence& samples = tree.sequence(*tree.find(file.root(), "samples"));
  bool named = false;  // rewards, be it as None
  for (size_t i = 0; i < samples.size(); ++i) {
    named = named || tree.find(samples[i], "reward") != nullptr;
  }
  for (size_t i = 0; i < made.rewards.size(); ++i) {
    made.unrewarded.push_back(named && field(tree, samples[i], "reward") == nullptr);
    const auto index = tree.integer(samples[i], "index");
    if (index && (made.rewards[i] || made.unrewarded[i])) {
      made.reward_of.emplace(*index, made.rewards[i]);
    }
  }
  for (const auto& [index, sample] : by_index(file)) {
    for (const TrainColumn& column : kTrainColumns) {
      const auto said =
          column.repeats == Repeats::kShort ? said_of(file, sample, column) : std::nullopt;
      if (said) made.hashes[index].emplace(column.name, tree_hash(file.tree(), *said));
    }
  }
  rollouts_.insert_or_assign(rollout.rollout_id, std::move(made));
}

/// A rank's raw rewards of its own samples, each of which has one where any does. Of shards in one
/// file check_shard_samples asks.
void RolloutCopies::compare_local_rewards(const TrainShard& shard, const Rollout& rollout,
                                          std::vector<Problem>& problems) {
  constexpr std::string_view kColumn = "local_raw_reward";
  if (shard.is_whole() || !repeats(shard, kColumn)) return;
  for (size_t row = 0; row < shard.indices().size(); ++row) {
    const auto said = rollout.reward_of.find(shard.indices()[row]);
    if (said == rollout.reward_of.end()) continue;
    const auto cell = copy_of(shard, row, kColumn);
    const auto own = cell ? foreign::number_of(*cell) : std::nullopt;
    const auto& reward = said->second;
    if (own && reward ? is_copy(*own, *reward) : !own && !reward) continue;
    problems.push_back(
        rollout_mismatch(shard, kColumn, said->first, "", reward_text(own), reward_text(reward)));
  }
}

/// Whether each row says what the rollout says, as far as that is known without reading it again.
bool RolloutCopies::are_known_to_agree(const TrainShard& shard, const Rollout& rollout,
                                       std::string_view column) {
  for (size_t row = 0; row < shard.indices().size(); ++row) {
    const auto of = rollout.hashes.find(shard.indices()[row]);
    if (of == rollout.hashes.end() || !of->second.contains(column)) continue;
    const auto copy = copy_of(shard, row, column);
    if (!copy || tree_hash(shard.tree(), *copy) != of->second.at(column)) return false;
  }
  return true;
}

std::vector<Problem> RolloutCopies::compare(int64_t rollout,
                                            std::span<const TorchFile* const> files) const {
  std::vector<Problem> problems;
  const auto known = rollouts_.find(rollout);
  if (known == rollouts_.end()) return compare_raw_rewards(files);
  const auto& rewards = known->second.rewards;
  std::set<int64_t> trained;
  for (const TorchFile* file : files) {
    const TrainShard shard(*file);
    trained.insert(shard.indices().begin(), shard.indices().end());
  }
  std::optional<TorchFile> again;
  std::map<int64_t, Value> samples;
  for (const TorchFile* file : files) {
    const TrainShard shard(*file);
    const std::vector<double> raw = numbers_of(shard.tree(), shard.batch_value("raw_reward"));
    // Rewards of the samples that were trained on, or of this rank's.
    const bool of_others = raw.size() == shard.indices().size() || raw.size() == trained.size();
    if (lists_rewards(shard) && !rewards.empty() && raw.size() != rewards.size() && !of_others) {
      problems.push_back({"rollout-mismatch",
                          "raw_reward of the training data is not what the rollout says",
                          shard.path() + ": raw_reward: " + counted(raw.size(), "number") +
                              ", the rollout says " + std::to_string(rewards.size())});
    }
    for (size_t i = 0; raw.size() == rewards.size() && i < raw.size(); ++i) {
      const auto& said = rewards[i];
      if (said ? is_copy(raw[i], *said) : !known->second.unrewarded[i] || std::isnan(raw[i])) {
        continue;
      }
      problems.push_back(
          {"rollout-mismatch", "raw_reward of the training data is not what the rollout says",
           shard.path() + ": raw_reward[" + std::to_string(i) + "]: " + shortest_of(raw[i]) +
               ", the rollout says " + reward_text(said)});
    }
    compare_local_rewards(shard, known->second, problems);
    std::ranges::move(known->second.said.compare(*file), std::back_inserter(problems));
    std::ranges::move(known->second.metadata.compare(shard), std::back_inserter(problems));
    std::vector<TrainColumn> columns;
    for (const TrainColumn& column : kTrainColumns) {
      const bool agree = column.repeats == Repeats::kShort &&
                         are_known_to_agree(shard, known->second, column.name);
      if (!is_compared(column) || agree) continue;
      if (repeats(shard, column.name)) columns.push_back(column);
    }
    if (columns.empty()) continue;
    if (!again) samples = by_index(again.emplace(known->second.path));
    compare_copies(shard, *again, samples, columns, problems);
  }
  return problems;
}

}  // namespace rlreplay::replay
