#include "src/replay/exchange/shard_samples_check.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "format/foreign/numbers.h"
#include "format/foreign/tree_difference.h"
#include "src/base/number_text.h"
#include "src/base/same_value.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::Tree;
using foreign::Value;

/// Holds the samples of one file against its dp_shards: first whose shards are, then what they
/// list, then what each listed sample says itself. A shard without a list says nothing of samples.
class ShardSamplesCheck {
 public:
  ShardSamplesCheck(const foreign::TorchFile& file, std::span<const ScheduleShard> shards)
      : file_(file), shards_(shards) {}

  std::vector<foreign::Problem> run() {
    const Tree& tree = file_.tree();
    const Value* samples = tree.find(file_.root(), "samples");
    const bool has_shards =
        !shards_.empty() || tree.find(file_.root(), "format_version") != nullptr;
    if (samples != nullptr && samples->kind == Kind::kList && has_shards) {
      check_ranks();
      check_writer();
      check_once("rank");
      check_once("data_parallel_rank");
      check_partitions();
      check_lists();
      check_listed(*samples);
      check_places(*samples);
    }
    return std::move(problems_);
  }

 private:
  void report(const std::string& message) {
    problems_.push_back({"schedule-mismatch", message, file_.path()});
  }

  /// Reports shards whose rank is said and no number that a rank has.
  void check_ranks() {
    for (const char* key : {"rank", "data_parallel_rank"}) {
      for (size_t i = 0; i < shards_.size(); ++i) {
        const Value* rank = file_.tree().find(shards_[i].dict, key);
        if (rank == nullptr || file_.tree().integer(shards_[i].dict, key).value_or(-1) >= 0)
          continue;
        report(std::string(key) + " of dp_shards[" + std::to_string(i) + "] is " +
               in_words(file_.tree(), *rank) + ", expected the number of a rank");
      }
    }
  }

  /// The first shard is of the rank that writes the file.
  void check_writer() {
    if (shards_.empty()) return;
    const auto own = file_.tree().integer(file_.root(), "rank");
    const auto first = file_.tree().integer(shards_.front().dict, "rank");
    if (!first || own == first) return;
    report("rank is " + (own ? std::to_string(*own) : "missing or no integer") +
           ", that of dp_shards[0], which writes the file, is " + std::to_string(*first));
  }

  /// Reports entries of dp_shards that are of one rank: each must be of another.
  void check_once(const char* key) {
    std::map<int64_t, size_t> first;
    for (size_t i = 0; i < shards_.size(); ++i) {
      const auto rank = file_.tree().integer(shards_[i].dict, key);
      if (!rank) continue;
      const auto [at, fresh] = first.emplace(*rank, i);
      if (fresh) continue;
      report(std::string(key) + " of dp_shards[" + std::to_string(i) + "] is " +
             std::to_string(*rank) + ", as that of dp_shards[" + std::to_string(at->second) + "]");
    }
  }

  /// Reports a shard whose partition is None where another one lists its places.
  void check_partitions() {
    const auto lists = [&](const ScheduleShard& shard) {
      return schedule_value(file_, shard.dict, "partition") != nullptr;
    };
    const auto has = std::ranges::find_if(shards_, lists);
    for (size_t i = 0; has != shards_.end() && i < shards_.size(); ++i) {
      const Value* own = file_.tree().find(shards_[i].dict, "partition");
      if (own == nullptr || lists(shards_[i])) continue;  // it is missing: ScheduleCheck
      report("partition of dp_shards[" + std::to_string(i) + "] is None, and dp_shards[" +
             std::to_string(has - shards_.begin()) + "] has one");
    }
  }

  /// Reports samples that are listed twice, and places in the rollout that two samples have.
  void check_lists() {
    std::map<int64_t, size_t> samples, places;
    for (size_t i = 0; i < shards_.size(); ++i) {
      const std::string shard = "dp_shards[" + std::to_string(i) + "]";
      const auto partition = schedule_numbers(file_, shards_[i].dict, "partition");
      if (shards_[i].samples) check_new("sample", *shards_[i].samples, i, samples);
      if (partition && partition->is_integer()) check_new("place", *partition, i, places);
      if (!partition || !shards_[i].samples) continue;
      const size_t listed = shards_[i].samples->size();
      if (partition->size() == listed) continue;
      report("partition of " + shard + " has " + std::to_string(partition->size()) +
             " entries, its sample_indices " + std::to_string(listed));
    }
  }

  /// `seen`: by number, the shard that lists it.
  void check_new(const std::string& what, const foreign::Numbers& list, size_t shard,
                 std::map<int64_t, size_t>& seen) {
    for (size_t i = 0; i < list.size(); ++i) {
      const auto [at, fresh] = seen.emplace(list.integer(i), shard);
      if (fresh) continue;
      const std::string name = what + " " + std::to_string(at->first);
      const std::string by = "dp_shards[" + std::to_string(shard) + "] lists " + name;
      return report(at->second == shard
                        ? by + " twice"
                        : by + ", and so does dp_shards[" + std::to_string(at->second) + "]");
    }
  }

  /// Reports samples of the file that no shard lists, and listed ones that it does not hold.
  void check_listed(Value samples) {
    const Tree& tree = file_.tree();
    std::set<int64_t> there, listed;
    const foreign::Sequence& rows = tree.sequence(samples);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (const auto index = tree.integer(rows[i], "sample_index")) there.insert(*index);
    }
    for (const ScheduleShard& shard : shards_) {
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
    for (const ScheduleShard& shard : shards_) {
      const auto partition = schedule_numbers(file_, shard.dict, "partition");
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
    if (!said || file_.tree().find(row, key) == nullptr) return;
    const std::optional<int64_t> own = file_.tree().integer(row, key);
    if (own == *said) return;
    report((own ? sample + " has the " + key + " " + std::to_string(*own)
                : key + (" of " + sample) + " is no integer") +
           ", " + by + " says " + std::to_string(*said));
  }

  /// Reports samples whose own raw reward is not the one that the rollout's list has at their
  /// place, or is absent where other samples have theirs.
  void check_raw_rewards(const std::map<int64_t, Value>& rows) {
    const Tree& tree = file_.tree();
    const Value* list = tree.find(file_.root(), "raw_reward");
    if (list == nullptr || list->kind != Kind::kList) return;
    const auto local = [&](Value row) { return tree.find(row, "local_raw_reward"); };
    const bool any =
        std::ranges::any_of(rows, [&](const auto& row) { return local(row.second) != nullptr; });
    if (!any) return;
    const foreign::Sequence& rewards = tree.sequence(*list);
    for (const auto& [index, row] : rows) {
      const auto at = tree.integer(row, "rollout_position");
      if (!at || *at < 0 || static_cast<size_t>(*at) >= rewards.size()) continue;
      const Value* cell = local(row);
      const auto own = foreign::number_of(cell != nullptr ? *cell : Value());
      const auto said = foreign::number_of(rewards[static_cast<size_t>(*at)]);
      if (own && said ? same_value(*own, *said) : !own && !said) continue;
      report("sample " + std::to_string(index) + " has the local_raw_reward " + text(own) +
             ", raw_reward says " + text(said) + " at its place " + std::to_string(*at));
    }
  }

  static std::string text(std::optional<double> reward) {
    return reward ? shortest(*reward) : "None";
  }

  const foreign::TorchFile& file_;
  std::span<const ScheduleShard> shards_;
  std::vector<foreign::Problem> problems_;
};

}  // namespace

std::vector<foreign::Problem> check_shard_samples(const foreign::TorchFile& file,
                                                  std::span<const ScheduleShard> shards) {
  return ShardSamplesCheck(file, shards).run();
}

}  // namespace rlreplay::replay
