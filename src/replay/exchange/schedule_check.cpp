#include "src/replay/exchange/schedule_check.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "format/foreign/absent_keys.h"
#include "format/foreign/numbers.h"
#include "format/foreign/train_columns.h"
#include "src/base/words.h"
#include "src/replay/exchange/shard_samples_check.h"
#include "src/replay/exchange/train_schedule.h"

namespace rlreplay::replay {
namespace {

using foreign::Numbers;
using foreign::Value;

/// What shards say that does not go together.
class ScheduleCheck {
 public:
  explicit ScheduleCheck(const foreign::TorchFile& file)
      : file_(file), shards_(schedule_shards(file)) {}

  std::vector<foreign::Problem> run() {
    for (auto shard = shards_.cbegin(); shard != shards_.cend(); ++shard) {
      check_integers(shard);
      check_counts(*shard, static_cast<size_t>(shard - shards_.cbegin()));
    }
    for (const foreign::TrainColumn& column : foreign::kTrainColumns) {
      if (column.had_by == foreign::HadBy::kSchedule) check_shards_have(column.name);
    }
    check_keys();
    check_steps();
    std::ranges::move(check_shard_samples(file_, shards_), std::back_inserter(problems_));
    return std::move(problems_);
  }

 private:
  void report(const std::string& message) {
    problems_.push_back({"schedule-mismatch", message, file_.path()});
  }

  /// A list with another value in it says nothing of the steps.
  void check_integers(std::vector<ScheduleShard>::const_iterator shard) {
    for (const char* key : {"sample_indices", "partition", "num_microbatches", "global_batch_sizes",
                            "num_rollouts"}) {
      const Value* value = schedule_value(file_, shard->dict, key);
      const auto held = value == nullptr ? std::nullopt : Numbers::of(file_.tree(), *value);
      if (value == nullptr || value->kind == foreign::Kind::kRange) continue;
      if (held && held->is_integer()) continue;
      report(std::string(key) + (shards_.size() > 1 ? " of " + shard_name(shard) : "") +
             " holds something else than integers");
    }
  }

  void check_counts(const ScheduleShard& shard, size_t number) {
    if (!shard.says_steps()) return;
    if (const auto announced = announced_by(*shard.counts, shard.batches->size())) {
      return report("num_microbatches" + *announced + ", micro_batch_indices has " +
                    std::to_string(shard.batches->size()));
    }
    if (!add_steps(file_, shard, number, steps_)) {
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
        return "[" + std::to_string(i) + "] announces " + std::to_string(count) + " micro-batches";
      }
      sum += count;
    }
    if (sum == static_cast<int64_t>(there)) return std::nullopt;
    return " announces " + std::to_string(sum) + (sum == 1 ? " micro-batch" : " micro-batches");
  }

  /// Reports a shard that lacks a key of the schedule which another one of the rollout has.
  void check_shards_have(std::string_view key) {
    const auto lacks = [&](const ScheduleShard& shard) {
      return schedule_value(file_, shard.dict, key) == nullptr;
    };
    const auto gone = std::ranges::find_if(shards_, lacks);
    const auto has = std::ranges::find_if_not(shards_, lacks);
    if (gone == shards_.end() || has == shards_.end()) return;
    report(std::string(key) + " is missing in " + shard_name(gone) + ", and " + shard_name(has) +
           " has it");
  }

  /// Whatever else one shard of slime's one file says.
  void check_keys() {
    const Value* list = file_.tree().find(file_.root(), "dp_shards");
    if (list == nullptr || list->kind != foreign::Kind::kList) return;
    const auto absent =
        absent_keys(file_.tree(), file_.tree().sequence(*list), [](std::string_view key) {
          const foreign::TrainColumn* const known = foreign::train_column(key);
          return known == nullptr || known->had_by != foreign::HadBy::kSchedule;
        });
    for (const foreign::AbsentKeys& found : absent) {
      report(found.name() + " is missing in dp_shards[" + std::to_string(found.row) +
             "], and dp_shards[" + std::to_string(found.first) + "] has it");
    }
  }

  std::string shard_name(std::vector<ScheduleShard>::const_iterator shard) const {
    return "dp_shards[" + std::to_string(shard - shards_.begin()) + "]";
  }

  /// Shards that are not of the same steps, and sizes of batches of other steps than theirs.
  void check_steps() {
    std::optional<size_t> steps;
    for (const ScheduleShard& shard : shards_) {
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

  /// Reports the first shard that says other sizes of batches than shard 0, and returns whether one
  /// does. Shards that say none are passed over.
  bool check_sizes(const char* key) {
    if (shards_.size() < 2) return false;
    const auto first = schedule_numbers(file_, shards_[0].dict, key);
    for (size_t i = 1; first && i < shards_.size(); ++i) {
      const auto other = schedule_numbers(file_, shards_[i].dict, key);
      if (!other) continue;
      const auto found = unlike_numbers(key, *first, "dp_shards[0]", *other,
                                        "dp_shards[" + std::to_string(i) + "]");
      if (!found) continue;
      report(*found);
      return true;
    }
    return false;
  }

  const foreign::TorchFile& file_;
  std::vector<ScheduleShard> shards_;
  std::map<int64_t, StepOf> steps_;  // of the shards so far
  std::vector<foreign::Problem> problems_;
};

}  // namespace

std::vector<foreign::Problem> check_schedule(const foreign::TorchFile& file) {
  return ScheduleCheck(file).run();
}

}  // namespace rlreplay::replay
