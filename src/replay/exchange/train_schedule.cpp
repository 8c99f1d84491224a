#include "src/replay/exchange/train_schedule.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>

#include "format/foreign/numbers.h"
#include "src/base/number_text.h"
#include "src/base/numbers.h"
#include "src/base/words.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::Numbers;
using foreign::Tree;
using foreign::Value;

/// Of one shard: a dict of sample_indices, and of micro_batch_indices (rows of each micro-batch)
/// and num_microbatches (of each step).
struct Shard {
  Value dict;
  std::optional<Numbers> samples, counts;
  const foreign::Sequence* batches = nullptr;

  static Shard of(const Tree& tree, Value dict) {
    const auto integers = [&](const char* key) -> std::optional<Numbers> {
      const Value* value = dict.kind == Kind::kDict ? tree.find(dict, key) : nullptr;
      auto found = value == nullptr ? std::nullopt : Numbers::of(tree, *value);
      return found && found->is_integer() ? std::move(found) : std::nullopt;
    };
    Shard out{dict, integers("sample_indices"), integers("num_microbatches")};
    const Value* list = dict.kind == Kind::kDict ? tree.find(dict, "micro_batch_indices") : nullptr;
    if (list != nullptr && list->kind == Kind::kList) out.batches = &tree.sequence(*list);
    return out;
  }

  bool says_steps() const { return samples && counts && batches != nullptr; }
};

/// The shards of a file: of one rank its own; of slime's one file a rollout those of all.
std::vector<Shard> shards_of(const foreign::TorchFile& file) {
  const Tree& tree = file.tree();
  if (const Value* data = tree.find(file.root(), "rollout_data")) return {Shard::of(tree, *data)};
  std::vector<Shard> out;
  const Value* shards = tree.find(file.root(), "dp_shards");
  if (shards == nullptr || shards->kind != Kind::kList) return out;
  const foreign::Sequence& list = tree.sequence(*shards);
  for (size_t i = 0; i < list.size(); ++i) out.push_back(Shard::of(tree, list[i]));
  return out;
}

/// Adds the samples of one shard.
bool add_shard(const Tree& tree, const Shard& shard, const std::string& path,
               std::map<int64_t, int64_t>& steps) {
  if (!shard.says_steps()) return false;
  const Numbers &samples = *shard.samples, &counts = *shard.counts;
  const foreign::Sequence& list = *shard.batches;
  size_t batch = 0;
  for (size_t step = 0; step < counts.size(); ++step) {
    for (int64_t i = 0; i < counts.integer(step) && batch < list.size(); ++i, ++batch) {
      const std::optional<Numbers> rows = Numbers::of(tree, list[batch]);
      if (!rows || !rows->is_integer()) return false;
      for (size_t k = 0; k < rows->size(); ++k) {
        const int64_t row = rows->integer(k);
        if (row < 0 || static_cast<size_t>(row) >= samples.size()) {
          throw Error(ErrorCode::kCorrupt,
                      "micro_batch_indices names row " + std::to_string(row) + " of " +
                          counted(samples.size(), "sample"),
                      path);
        }
        const int64_t sample = samples.integer(static_cast<size_t>(row));
        const auto [it, fresh] = steps.emplace(sample, static_cast<int64_t>(step));
        if (fresh) continue;
        const bool twice = it->second == static_cast<int64_t>(step);
        throw Error(ErrorCode::kCorrupt,
                    "sample " + std::to_string(sample) + " is trained on " +
                        (twice ? "twice in one step" : "in two steps") +
                        ": micro_batch_indices names it twice",
                    path);
      }
    }
  }
  return true;
}

/// What shards say that does not go together.
class ScheduleCheck {
 public:
  explicit ScheduleCheck(const foreign::TorchFile& file) : file_(file), shards_(shards_of(file)) {}

  std::vector<foreign::Problem> run() {
    for (const Shard& shard : shards_) check_counts(shard);
    check_steps();
    const Value* samples = file_.tree().find(file_.root(), "samples");
    if (samples != nullptr && !shards_.empty()) {
      check_listed(*samples);
      check_places(*samples);
    }
    return std::move(problems_);
  }

 private:
  void report(const std::string& message) {
    problems_.push_back({"schedule-mismatch", message, file_.path()});
  }

  void check_counts(const Shard& shard) {
    if (!shard.says_steps()) return;
    constexpr int64_t kMost = int64_t{1} << 32;
    int64_t announced = 0;
    for (size_t i = 0; i < shard.counts->size(); ++i) {
      announced =
          std::min(kMost, announced + std::clamp<int64_t>(shard.counts->integer(i), 0, kMost));
    }
    if (announced != static_cast<int64_t>(shard.batches->size())) {
      report("num_microbatches announces " + std::to_string(announced) +
             " micro-batches, micro_batch_indices has " + std::to_string(shard.batches->size()));
    }
    std::map<int64_t, int64_t> steps;
    if (!add_shard(file_.tree(), shard, file_.path(), steps)) {
      return report("micro_batch_indices holds something else than rows");
    }
    for (size_t i = 0; i < shard.samples->size(); ++i) {
      if (steps.contains(shard.samples->integer(i))) continue;
      return report("sample " + std::to_string(shard.samples->integer(i)) +
                    " is in no micro-batch of micro_batch_indices");
    }
  }

  /// All shards take the same steps.
  void check_steps() {
    std::optional<size_t> steps;
    for (const Shard& shard : shards_) {
      if (!shard.counts) continue;
      if (!steps) steps = shard.counts->size();
      if (*steps == shard.counts->size()) continue;
      return report("num_microbatches of one shard is of " + counted(*steps, "step") +
                    ", of another one of " + std::to_string(shard.counts->size()));
    }
    const size_t sizes = read_batch_sizes(file_).size();
    if (steps && sizes != 0 && sizes != *steps) {
      return report("num_microbatches is of " + counted(*steps, "step") + ", the batch sizes of " +
                    std::to_string(sizes));
    }
    for (size_t i = 1; i < shards_.size(); ++i) {
      if (check_sizes(shards_[0].dict, shards_[i].dict, i)) return;
    }
  }

  /// Of one rollout all shards name the sizes of its batches. Says whether they were reported.
  bool check_sizes(Value first, Value other, size_t entry) {
    const auto a = numbers(first, "global_batch_sizes"), b = numbers(other, "global_batch_sizes");
    for (size_t i = 0; a && b && i < std::min(a->size(), b->size()); ++i) {
      if (same_value(a->real(i), b->real(i))) continue;
      report("global_batch_sizes[" + std::to_string(i) + "] is " + shortest(a->real(i)) +
             " in dp_shards[0], " + shortest(b->real(i)) + " in dp_shards[" +
             std::to_string(entry) + "]");
      return true;
    }
    return false;
  }

  /// Of slime's one file a rollout: its samples against those of its shards.
  void check_listed(Value samples) {
    const Tree& tree = file_.tree();
    std::set<int64_t> there, listed;
    const foreign::Sequence& rows = tree.sequence(samples);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (const auto index = tree.integer(rows[i], "sample_index")) there.insert(*index);
    }
    for (const Shard& shard : shards_) {
      for (size_t i = 0; shard.samples && i < shard.samples->size(); ++i) {
        listed.insert(shard.samples->integer(i));
      }
    }
    const auto lacks = [&](const std::set<int64_t>& of, const std::set<int64_t>& in,
                           const std::string& says, const std::string& not_in) {
      std::vector<int64_t> gone;
      std::ranges::set_difference(of, in, std::back_inserter(gone));
      if (gone.empty()) return;
      report(says + " sample " + std::to_string(gone.front()) +
             (gone.size() > 1 ? " and " + std::to_string(gone.size() - 1) + " more" : "") + ", " +
             not_in);
    };
    lacks(listed, there, "dp_shards lists", "which samples does not hold");
    lacks(there, listed, "samples holds", "which no entry of dp_shards lists");
  }

  /// What each of these samples says of its place, against the shard that lists it and the
  /// rollout's raw rewards.
  void check_places(Value samples) {
    const Tree& tree = file_.tree();
    std::map<int64_t, Value> by_index;
    const foreign::Sequence& rows = tree.sequence(samples);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (const auto index = tree.integer(rows[i], "sample_index"))
        by_index.emplace(*index, rows[i]);
    }
    for (const Shard& shard : shards_) {
      const auto partition = numbers(shard.dict, "partition");
      for (size_t i = 0; shard.samples && i < shard.samples->size(); ++i) {
        const auto row = by_index.find(shard.samples->integer(i));
        if (row == by_index.end()) continue;
        const std::string sample = "sample " + std::to_string(row->first);
        hold(sample, row->second, "data_parallel_rank",
             tree.integer(shard.dict, "data_parallel_rank"),
             "the entry of dp_shards that lists it");
        if (!partition || !partition->is_integer() || i >= partition->size()) continue;
        hold(sample, row->second, "rollout_position", partition->integer(i), "its partition");
      }
    }
    check_raw_rewards(by_index);
  }

  void hold(const std::string& sample, Value row, const char* key, std::optional<int64_t> said,
            const std::string& by) {
    const std::optional<int64_t> own = file_.tree().integer(row, key);
    if (!own || !said || *own == *said) return;
    report(sample + " has the " + key + " " + std::to_string(*own) + ", " + by + " says " +
           std::to_string(*said));
  }

  void check_raw_rewards(const std::map<int64_t, Value>& rows) {
    const Tree& tree = file_.tree();
    const Value* list = tree.find(file_.root(), "raw_reward");
    if (list == nullptr || list->kind != Kind::kList) return;
    const foreign::Sequence& rewards = tree.sequence(*list);
    for (const auto& [index, row] : rows) {
      const auto at = tree.integer(row, "rollout_position");
      const Value* local = tree.find(row, "local_raw_reward");
      if (!at || *at < 0 || static_cast<size_t>(*at) >= rewards.size() || !local) continue;
      const auto own = foreign::number_of(*local),
                 said = foreign::number_of(rewards[static_cast<size_t>(*at)]);
      if (!own || !said || same_value(*own, *said)) continue;
      report("sample " + std::to_string(index) + " has the local_raw_reward " + shortest(*own) +
             ", raw_reward says " + shortest(*said) + " at its place " + std::to_string(*at));
    }
  }

  std::optional<Numbers> numbers(Value dict, const char* key) const {
    const Value* value = dict.kind == Kind::kDict ? file_.tree().find(dict, key) : nullptr;
    return value == nullptr ? std::nullopt : Numbers::of(file_.tree(), *value);
  }

  const foreign::TorchFile& file_;
  std::vector<Shard> shards_;
  std::vector<foreign::Problem> problems_;
};

/// Of the files of ranks, those that lack what another one says of all steps.
void check_presence(std::span<const foreign::TorchFile* const> files, const char* key,
                    std::vector<foreign::Problem>& problems) {
  std::vector<std::string> has, lacks;
  for (const foreign::TorchFile* file : files) {
    const Value* data = file->tree().find(file->root(), "rollout_data");
    if (data == nullptr || data->kind != Kind::kDict) continue;
    const Value* value = file->tree().find(*data, key);
    const bool absent = value == nullptr || value->kind == Kind::kNone;
    (absent ? lacks : has).push_back(file->path());
  }
  const auto name = [](const std::string& path) {
    return std::filesystem::path(path).filename().string();
  };
  for (const std::string& path : lacks) {
    if (has.empty()) return;
    problems.push_back({"schedule-mismatch",
                        std::string(key) + " is missing in " + name(path) + ", and " +
                            name(has.front()) + " has it, of the same rollout",
                        path});
  }
}

}  // namespace

std::optional<std::map<int64_t, int64_t>> read_schedule(const foreign::TorchFile& file) {
  const std::vector<Shard> shards = shards_of(file);
  if (shards.empty()) return std::nullopt;
  std::map<int64_t, int64_t> steps;
  for (const Shard& shard : shards) {
    if (!add_shard(file.tree(), shard, file.path(), steps)) return std::nullopt;
  }
  return steps;
}

std::vector<foreign::Problem> check_schedule(const foreign::TorchFile& file) {
  return ScheduleCheck(file).run();
}

std::vector<foreign::Problem> lacking_schedules(std::span<const foreign::TorchFile* const> files) {
  std::vector<foreign::Problem> problems;
  for (const char* key :
       {"micro_batch_indices", "num_microbatches", "global_batch_sizes", "num_rollouts"}) {
    check_presence(files, key, problems);
  }
  return problems;
}

std::vector<int64_t> read_batch_sizes(std::span<const foreign::TorchFile* const> files) {
  for (const foreign::TorchFile* file : files) {
    std::vector<int64_t> sizes = read_batch_sizes(*file);
    if (!sizes.empty()) return sizes;
  }
  return {};
}

std::vector<int64_t> read_batch_sizes(const foreign::TorchFile& file) {
  const Tree& tree = file.tree();
  const Value* data = tree.find(file.root(), "rollout_data");
  if (const Value* shards = tree.find(file.root(), "dp_shards");
      shards != nullptr && shards->kind == Kind::kList && tree.sequence(*shards).size() > 0) {
    data = &tree.sequence(*shards).values().front();
  }
  // slime's name, and Miles'.
  for (const char* key : {"global_batch_sizes", "num_rollouts"}) {
    const Value* value =
        data == nullptr || data->kind != Kind::kDict ? nullptr : tree.find(*data, key);
    const auto sizes = value == nullptr ? std::nullopt : Numbers::of(tree, *value);
    if (!sizes || !sizes->is_integer()) continue;
    std::vector<int64_t> out;
    for (size_t i = 0; i < sizes->size(); ++i) out.push_back(sizes->integer(i));
    return out;
  }
  return {};
}

}  // namespace rlreplay::replay
