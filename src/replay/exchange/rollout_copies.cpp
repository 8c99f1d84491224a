#include "src/replay/exchange/rollout_copies.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "format/foreign/train_shard.h"
#include "format/foreign/tree_difference.h"
#include "src/base/number_text.h"
#include "src/base/numbers.h"
#include "src/base/words.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::Numbers;
using foreign::Problem;
using foreign::TorchFile;
using foreign::TrainShard;
using foreign::Tree;
using foreign::Value;

/// Columns that no trainer cuts or changes. A teacher's log-probabilities are cut under context
/// parallelism.
constexpr auto kCopied =
    std::to_array<std::string_view>({"rollout_top_p_token_ids", "rollout_top_p_token_offsets",
                                     "rollout_routed_experts", "rollout_indexer_topk"});

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

/// The cell of a column that holds something; nothing where it is absent or None.
std::optional<Value> copy_of(const TrainShard& shard, size_t row, std::string_view column) {
  const auto cell = shard.is_by_sample(column) ? shard.find(row, column) : std::nullopt;
  return cell && cell->kind != Kind::kNone ? cell : std::nullopt;
}

/// The columns that the shard repeats of the rollout: of one that it leaves out it says nothing.
std::vector<std::string_view> copied_columns(const TrainShard& shard) {
  std::vector<std::string_view> out;
  for (const std::string_view column : kCopied) {
    for (size_t row = 0; row < shard.indices().size(); ++row) {
      if (!copy_of(shard, row, column)) continue;
      out.push_back(column);
      break;
    }
  }
  return out;
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

Problem mismatch(const TrainShard& shard, std::string_view column, int64_t sample,
                 const std::string& place, const std::string& found, const std::string& said) {
  return {"rollout-mismatch",
          std::string(column) + " of the training data is not what the rollout says",
          shard.path() + ": sample " + std::to_string(sample) + place + ": " + found +
              ", the rollout says " + said};
}

void compare_copies(const TrainShard& shard, const Tree& tree,
                    const std::map<int64_t, Value>& samples,
                    std::span<const std::string_view> columns, std::vector<Problem>& problems) {
  for (size_t row = 0; row < shard.indices().size(); ++row) {
    const int64_t index = shard.indices()[row];
    const auto sample = samples.find(index);
    if (sample == samples.end()) continue;  // verify --deep: sample-unknown
    for (const std::string_view column : columns) {
      const auto copy = copy_of(shard, row, column);
      const Value* of = field(tree, sample->second, column);
      const auto said = of == nullptr ? std::nullopt : Numbers::of(tree, *of);
      const auto own = copy ? Numbers::of(shard.tree(), *copy) : std::nullopt;
      if (!said || (copy && !own)) continue;
      if (!copy || own->size() != said->size()) {
        problems.push_back(mismatch(shard, column, index, "",
                                    copy ? counted(own->size(), "number") : "None",
                                    counted(said->size(), "number")));
        continue;
      }
      const auto found = tree_difference(shard.tree(), *copy, tree, *of);
      if (found)
        problems.push_back(mismatch(shard, column, index, found->place, found->a, found->b));
    }
  }
}

}  // namespace

void RolloutCopies::add(const ImportedRollout& rollout, const std::string& path) {
  rollouts_[rollout.rollout_id] = {path, rollout.raw_rewards};
}

std::vector<Problem> RolloutCopies::compare(int64_t rollout,
                                            std::span<const TorchFile* const> files) const {
  std::vector<Problem> problems;
  const auto known = rollouts_.find(rollout);
  if (known == rollouts_.end()) return problems;
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
    if (!raw.empty() && !rewards.empty() && raw.size() != rewards.size() && !of_others) {
      problems.push_back({"rollout-mismatch",
                          "raw_reward of the training data is not what the rollout says",
                          shard.path() + ": raw_reward: " + std::to_string(raw.size()) +
                              " entries, the rollout says " + std::to_string(rewards.size())});
    }
    for (size_t i = 0; raw.size() == rewards.size() && i < raw.size(); ++i) {
      const auto& said = rewards[i];
      if (!said || same_value(raw[i], *said)) continue;
      if (same_value(raw[i], static_cast<float>(*said))) continue;
      problems.push_back(
          {"rollout-mismatch", "raw_reward of the training data is not what the rollout says",
           shard.path() + ": raw_reward[" + std::to_string(i) + "]: " + shortest_of(raw[i]) +
               ", the rollout says " + shortest_of(*said)});
    }
    const auto columns = copied_columns(shard);
    if (columns.empty()) continue;
    if (!again) samples = by_index(again.emplace(known->second.path));
    compare_copies(shard, again->tree(), samples, columns, problems);
  }
  return problems;
}

}  // namespace rlreplay::replay
