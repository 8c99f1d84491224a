#include "src/replay/exchange/train_schedule.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "format/foreign/numbers.h"
#include "format/foreign/train_columns.h"
#include "format/foreign/tree_difference.h"
#include "src/base/number_text.h"
#include "src/base/same_value.h"
#include "src/base/words.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::Numbers;
using foreign::Tree;
using foreign::Value;

/// slime's name of the sizes of a rollout's batches, and Miles'.
constexpr std::array kBatchSizes = {"global_batch_sizes", "num_rollouts"};

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

/// The step of a sample, and the shard that says it.
struct StepOf {
  int64_t step = 0;
  size_t shard = 0;
};

/// A sample that an earlier row named. Errors: kCorrupt.
[[noreturn]] void refuse_twice(int64_t sample, const StepOf& first, const StepOf& again,
                               const std::string& path) {
  if (first.shard != again.shard) {
    throw Error(ErrorCode::kCorrupt,
                "dp_shards[" + std::to_string(again.shard) + "] trains on sample " +
                    std::to_string(sample) + ", and so does dp_shards[" +
                    std::to_string(first.shard) + "]: a sample is of one shard",
                path);
  }
  throw Error(ErrorCode::kCorrupt,
              "sample " + std::to_string(sample) + " is trained on " +
                  (first.step == again.step ? "twice in one step" : "in two steps") +
                  ": micro_batch_indices names it twice",
              path);
}

/// Adds the samples of one shard. Errors: kCorrupt.
bool add_shard(const Tree& tree, const Shard& shard, size_t number, const std::string& path,
               std::map<int64_t, StepOf>& steps) {
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
        const StepOf place{static_cast<int64_t>(step), number};
        const auto [it, fresh] = steps.emplace(sample, place);
        if (!fresh) refuse_twice(sample, it->second, place, path);
      }
    }
  }
  return true;
}

const Value* value_of(const foreign::TorchFile& file, Value dict, std::string_view key) {
  const Value* value = dict.kind == Kind::kDict ? file.tree().find(dict, key) : nullptr;
  return value == nullptr || value->kind == Kind::kNone ? nullptr : value;
}

/// What two say of one key, where it is not the same.
std::optional<std::string> unlike(const std::string& key, const Numbers& a, const std::string& in_a,
                                  const Numbers& b, const std::string& in_b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (same_value(a.real(i), b.real(i))) continue;
    return key + "[" + std::to_string(i) + "] is " + shortest(a.real(i)) + " in " + in_a + ", " +
           shortest(b.real(i)) + " in " + in_b;
  }
  if (a.size() == b.size()) return std::nullopt;
  return key + " is of " + counted(a.size(), "step") + " in " + in_a + ", of " +
         std::to_string(b.size()) + " in " + in_b;
}

/// What shards say that does not go together.
class ScheduleCheck {
 public:
  explicit ScheduleCheck(const foreign::TorchFile& file) : file_(file), shards_(shards_of(file)) {}

  std::vector<foreign::Problem> run() {
    for (auto shard = shards_.cbegin(); shard != shards_.cend(); ++shard) {
      check_integers(shard);
      check_counts(*shard, static_cast<size_t>(shard - shards_.cbegin()));
    }
    for (const foreign::TrainColumn& column : foreign::kTrainColumns) {
      if (column.had_by == foreign::HadBy::kSchedule) check_shards_have(column.name);
    }
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

  /// A list with another value in it says nothing of the steps.
  void check_integers(std::vector<Shard>::const_iterator shard) {
    for (const char* key :
         {"sample_indices", "num_microbatches", "global_batch_sizes", "num_rollouts"}) {
      const Value* value = value_of(file_, shard->dict, key);
      const auto held = value == nullptr ? std::nullopt : Numbers::of(file_.tree(), *value);
      if (value == nullptr || (held && held->is_integer())) continue;
      report(std::string(key) + (shards_.size() > 1 ? " of " + shard_name(shard) : "") +
             " holds something else than integers");
    }
  }

  void check_counts(const Shard& shard, size_t number) {
    if (!shard.says_steps()) return;
    if (const auto announced = announced_by(*shard.counts, shard.batches->size())) {
      report("num_microbatches" + *announced + " micro-batches, micro_batch_indices has " +
             std::to_string(shard.batches->size()));
    }
    if (!add_shard(file_.tree(), shard, number, file_.path(), steps_)) {
      return report("micro_batch_indices holds something else than rows");
    }
    for (size_t i = 0; i < shard.samples->size(); ++i) {
      if (steps_.contains(shard.samples->integer(i))) continue;
      return report("sample " + std::to_string(shard.samples->integer(i)) +
                    " is in no micro-batch of micro_batch_indices");
    }
  }

  /// What the numbers of micro-batches announce, in words, where it is not `there`.
  static std::optional<std::string> announced_by(const Numbers& counts, size_t there) {
    constexpr int64_t kMost = int64_t{1} << 32;
    int64_t sum = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      const int64_t count = counts.integer(i);
      if (count < 0 || count > kMost) {
        return "[" + std::to_string(i) + "] announces " + std::to_string(count);
      }
      sum += count;
    }
    if (sum == static_cast<int64_t>(there)) return std::nullopt;
    return " announces " + std::to_string(sum);
  }

  /// Of one rollout each shard says what another one says of the schedule.
  void check_shards_have(std::string_view key) {
    const auto lacks = [&](const Shard& shard) {
      const Value* value = value_of(file_, shard.dict, key);
      return value == nullptr;
    };
    const auto gone = std::ranges::find_if(shards_, lacks);
    const auto has = std::ranges::find_if_not(shards_, lacks);
    if (gone == shards_.end() || has == shards_.end()) return;
    report(std::string(key) + " is missing in " + shard_name(gone) + ", and " + shard_name(has) +
           " has it");
  }

  std::string shard_name(std::vector<Shard>::const_iterator shard) const {
    return "dp_shards[" + std::to_string(shard - shards_.begin()) + "]";
  }

  /// Shards that are not of the same steps, and sizes of batches of other steps than theirs.
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
    for (const char* key : kBatchSizes) {
      if (check_sizes(key)) return;
    }
  }

  /// Of one rollout all shards name the sizes of its batches. Says whether they were reported.
  bool check_sizes(const char* key) {
    if (shards_.size() < 2) return false;
    const auto first = numbers(shards_[0].dict, key);
    for (size_t i = 1; first && i < shards_.size(); ++i) {
      const auto other = numbers(shards_[i].dict, key);
      if (!other) continue;
      const auto found =
          unlike(key, *first, "dp_shards[0]", *other, "dp_shards[" + std::to_string(i) + "]");
      if (!found) continue;
      report(*found);
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
  std::map<int64_t, StepOf> steps_;  // of the shards so far
  std::vector<foreign::Problem> problems_;
};

/// Of files of one rollout, those that lack what another one says; `find`: of a file.
template <class Find>
void check_presence(std::span<const foreign::TorchFile* const> files, std::string_view key,
                    Find find, std::vector<foreign::Problem>& problems) {
  const auto has = std::ranges::find_if(files, [&](auto* file) { return find(*file) != nullptr; });
  if (has == files.end()) return;
  for (const foreign::TorchFile* file : files) {
    if (find(*file) != nullptr) continue;
    problems.push_back({"schedule-mismatch",
                        std::string(key) + " is missing in " + file->name() + ", and " +
                            (*has)->name() + " has it, of the same rollout",
                        file->path()});
  }
}

/// Ranks that say another value than the first which says one.
void check_alike(std::span<const foreign::TorchFile* const> files, const char* key,
                 std::vector<foreign::Problem>& problems) {
  const foreign::TorchFile* first = nullptr;
  for (const foreign::TorchFile* file : files) {
    const Value* value = value_of(*file, file->root(), key);
    if (value == nullptr) continue;
    if (first == nullptr) first = file;
    const std::string own = foreign::in_words(file->tree(), *value);
    const std::string said =
        foreign::in_words(first->tree(), *value_of(*first, first->root(), key));
    if (own == said) continue;
    problems.push_back({"schedule-mismatch",
                        std::string(key) + " is " + own + " in " + file->name() + ", " + said +
                            " in " + first->name() + ", of the same rollout",
                        file->path()});
  }
}

using RankShards = std::vector<std::pair<const foreign::TorchFile*, Shard>>;

/// The shards of the ranks' files, one of each set of samples: those of the same samples are
/// replicas, which are held to each other whole.
RankShards distinct_shards(std::span<const foreign::TorchFile* const> files) {
  RankShards out;
  std::set<std::set<int64_t>> seen;
  for (const foreign::TorchFile* file : files) {
    if (file->tree().find(file->root(), "rollout_data") == nullptr) continue;
    Shard shard = shards_of(*file).front();
    std::set<int64_t> samples;
    for (size_t i = 0; shard.samples && i < shard.samples->size(); ++i) {
      samples.insert(shard.samples->integer(i));
    }
    if (seen.insert(std::move(samples)).second) out.emplace_back(file, std::move(shard));
  }
  return out;
}

/// Ranks that say other numbers than the first which says some.
template <class Report>
void check_numbers_alike(const RankShards& shards, const char* key, Report report) {
  const foreign::TorchFile* by = nullptr;
  std::optional<Numbers> said;
  for (const auto& [file, shard] : shards) {
    const Value* value = value_of(*file, shard.dict, key);
    auto own = value == nullptr ? std::nullopt : Numbers::of(file->tree(), *value);
    if (!own) continue;
    if (!said) {
      by = file;
      said = std::move(own);
    } else if (const auto found = unlike(key, *own, file->name(), *said, by->name())) {
      report(file, *found);
    }
  }
}

/// A batch's size that a rollout had of its own, which is one number.
template <class Report>
void check_dynamic_sizes(const RankShards& shards, Report report) {
  constexpr const char* kKey = "dynamic_global_batch_size";
  const foreign::TorchFile* by = nullptr;
  std::string said;
  for (const auto& [file, shard] : shards) {
    const Value* value = value_of(*file, shard.dict, kKey);
    if (value == nullptr) continue;
    const std::string own = foreign::in_words(file->tree(), *value);
    if (by == nullptr) {
      by = file;
      said = own;
    } else if (own != said) {
      report(file, std::string(kKey) + " is " + own + " in " + file->name() + ", " + said + " in " +
                       by->name());
    }
  }
}

/// Ranks of other samples that say another number of steps, or other sizes of batches, than the
/// first which says some.
void check_steps_alike(std::span<const foreign::TorchFile* const> files,
                       std::vector<foreign::Problem>& problems) {
  const auto shards = distinct_shards(files);
  const auto report = [&](const foreign::TorchFile* file, const std::string& message) {
    problems.push_back({"schedule-mismatch", message + ", of the same rollout", file->path()});
  };
  const auto first =
      std::ranges::find_if(shards, [](const auto& s) { return s.second.counts.has_value(); });
  for (auto at = first; at != shards.end(); ++at) {
    const size_t steps = at->second.counts ? at->second.counts->size() : 0;
    const size_t said = first->second.counts->size();
    if (!at->second.counts || steps == said) continue;
    report(at->first, "num_microbatches is of " + counted(steps, "step") + " in " +
                          at->first->name() + ", of " + std::to_string(said) + " in " +
                          first->first->name());
  }
  for (const char* key : kBatchSizes) check_numbers_alike(shards, key, report);
  check_dynamic_sizes(shards, report);
}

}  // namespace

std::optional<std::map<int64_t, int64_t>> read_schedule(const foreign::TorchFile& file) {
  const std::vector<Shard> shards = shards_of(file);
  if (shards.empty()) return std::nullopt;
  std::map<int64_t, StepOf> found;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (!add_shard(file.tree(), shards[i], i, file.path(), found)) return std::nullopt;
  }
  std::map<int64_t, int64_t> steps;
  for (const auto& [sample, place] : found) steps[sample] = place.step;
  return steps;
}

std::vector<foreign::Problem> check_schedule(const foreign::TorchFile& file) {
  return ScheduleCheck(file).run();
}

std::vector<foreign::Problem> compare_schedules(std::span<const foreign::TorchFile* const> files) {
  std::vector<foreign::Problem> problems;
  for (const foreign::TrainColumn& column : foreign::kTrainColumns) {
    if (column.had_by != foreign::HadBy::kSchedule) continue;
    const std::string_view key = column.name;
    const auto find = [&](const foreign::TorchFile& file) -> const Value* {
      const Value* data = file.tree().find(file.root(), "rollout_data");
      return data == nullptr ? nullptr : value_of(file, *data, key);
    };
    check_presence(files, key, find, problems);
  }
  check_steps_alike(files, problems);
  return problems;
}

std::vector<foreign::Problem> check_layouts(std::span<const foreign::TorchFile* const> files) {
  std::vector<foreign::Problem> problems;
  for (const char* key : {"rank", "cp_rank", "cp_size", "qkv_format"}) {
    const auto find = [&](const foreign::TorchFile& file) {
      return value_of(file, file.root(), key);
    };
    check_presence(files, key, find, problems);
  }
  for (const char* key : {"cp_size", "qkv_format"}) check_alike(files, key, problems);
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
  for (const char* key : kBatchSizes) {
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
