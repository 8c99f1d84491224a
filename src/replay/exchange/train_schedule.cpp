#include "src/replay/exchange/train_schedule.h"

#include <algorithm>
#include <set>

#include "format/foreign/train_shard.h"
#include "src/base/error.h"
#include "src/base/number_text.h"
#include "src/base/same_value.h"
#include "src/base/words.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::Numbers;
using foreign::Tree;
using foreign::Value;

ScheduleShard shard_of(const foreign::TorchFile& file, Value dict) {
  const auto integers = [&](const char* key) -> std::optional<Numbers> {
    auto found = schedule_numbers(file, dict, key);
    return found && found->is_integer() ? std::move(found) : std::nullopt;
  };
  ScheduleShard out{dict, integers("sample_indices"), integers("num_microbatches")};
  const Value* list = schedule_value(file, dict, "micro_batch_indices");
  if (list != nullptr && list->kind == Kind::kList) out.batches = &file.tree().sequence(*list);
  return out;
}

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

}  // namespace

std::vector<ScheduleShard> schedule_shards(const foreign::TorchFile& file) {
  const Tree& tree = file.tree();
  if (const Value* data = tree.find(file.root(), "rollout_data")) return {shard_of(file, *data)};
  std::vector<ScheduleShard> out;
  const Value* shards = tree.find(file.root(), "dp_shards");
  if (shards == nullptr || shards->kind != Kind::kList) return out;
  const foreign::Sequence& list = tree.sequence(*shards);
  for (size_t i = 0; i < list.size(); ++i) out.push_back(shard_of(file, list[i]));
  return out;
}

bool add_steps(const foreign::TorchFile& file, const ScheduleShard& shard, size_t number,
               std::map<int64_t, StepOf>& steps) {
  if (!shard.says_steps()) return false;
  const Numbers &samples = *shard.samples, &counts = *shard.counts;
  const foreign::Sequence& list = *shard.batches;
  size_t batch = 0;
  for (size_t step = 0; step < counts.size(); ++step) {
    for (int64_t i = 0; i < counts.integer(step) && batch < list.size(); ++i, ++batch) {
      const std::optional<Numbers> rows = Numbers::of(file.tree(), list[batch]);
      if (!rows || !rows->is_integer()) return false;
      for (size_t k = 0; k < rows->size(); ++k) {
        const int64_t row = rows->integer(k);
        if (row < 0 || static_cast<size_t>(row) >= samples.size()) {
          throw Error(ErrorCode::kCorrupt,
                      "micro_batch_indices names row " + std::to_string(row) + " of " +
                          counted(samples.size(), "sample"),
                      file.path());
        }
        const int64_t sample = samples.integer(static_cast<size_t>(row));
        const StepOf place{static_cast<int64_t>(step), number};
        const auto [it, fresh] = steps.emplace(sample, place);
        if (!fresh) refuse_twice(sample, it->second, place, file.path());
      }
    }
  }
  return true;
}

std::optional<std::map<int64_t, int64_t>> read_schedule(const foreign::TorchFile& file) {
  const std::vector<ScheduleShard> shards = schedule_shards(file);
  if (shards.empty()) return std::nullopt;
  std::map<int64_t, StepOf> found;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (!add_steps(file, shards[i], i, found)) return std::nullopt;
  }
  std::map<int64_t, int64_t> steps;
  for (const auto& [sample, place] : found) steps[sample] = place.step;
  return steps;
}

std::vector<int64_t> read_batch_sizes(std::span<const foreign::TorchFile* const> files) {
  for (const foreign::TorchFile* file : files) {
    std::vector<int64_t> sizes = read_batch_sizes(*file);
    if (!sizes.empty()) return sizes;
  }
  return {};
}

namespace {

/// Whether no two samples are of one trajectory.
bool has_lone_samples(std::span<const foreign::TorchFile* const> files) {
  std::set<int64_t> samples, trajectories;
  for (const foreign::TorchFile* file : files) {
    const foreign::TrainShard shard(*file);
    for (size_t row = 0; row < shard.indices().size(); ++row) {
      const int64_t id = shard.indices()[row];
      samples.insert(id);
      trajectories.insert(shard.whole_number(row, "rollout_ids").value_or(id));
    }
  }
  return samples.size() == trajectories.size();
}

}  // namespace

std::vector<int64_t> read_taken(std::span<const foreign::TorchFile* const> files) {
  std::vector<int64_t> sizes = read_batch_sizes(files);
  if (!sizes.empty()) return sizes;
  for (const foreign::TorchFile* file : files) {
    const std::vector<ScheduleShard> shards = schedule_shards(*file);
    if (shards.empty() || shards.front().dict.kind != Kind::kDict) continue;
    const auto size = file->tree().integer(shards.front().dict, "dynamic_global_batch_size");
    if (!size) continue;
    // It counts samples, the steps trajectories.
    return has_lone_samples(files) ? std::vector<int64_t>{*size} : std::vector<int64_t>{};
  }
  return {};
}

std::vector<int64_t> read_batch_sizes(const foreign::TorchFile& file) {
  const std::vector<ScheduleShard> shards = schedule_shards(file);
  for (const char* key : kBatchSizes) {
    if (shards.empty()) break;
    const auto sizes = schedule_numbers(file, shards.front().dict, key);
    if (!sizes || !sizes->is_integer()) continue;
    std::vector<int64_t> out;
    for (size_t i = 0; i < sizes->size(); ++i) out.push_back(sizes->integer(i));
    return out;
  }
  return {};
}

const Value* schedule_value(const foreign::TorchFile& file, Value dict, std::string_view key) {
  const Value* value = dict.kind == Kind::kDict ? file.tree().find(dict, key) : nullptr;
  return value == nullptr || value->kind == Kind::kNone ? nullptr : value;
}

std::optional<Numbers> schedule_numbers(const foreign::TorchFile& file, Value dict,
                                        std::string_view key) {
  const Value* value = schedule_value(file, dict, key);
  return value == nullptr ? std::nullopt : Numbers::of(file.tree(), *value);
}

std::optional<std::string> unlike_numbers(const std::string& key, const Numbers& a,
                                          const std::string& in_a, const Numbers& b,
                                          const std::string& in_b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (same_value(a.real(i), b.real(i))) continue;
    return key + "[" + std::to_string(i) + "] is " + shortest(a.real(i)) + " in " + in_a + ", " +
           shortest(b.real(i)) + " in " + in_b;
  }
  if (a.size() == b.size()) return std::nullopt;
  return key + " is of " + counted(a.size(), "step") + " in " + in_a + ", of " +
         std::to_string(b.size()) + " in " + in_b;
}

}  // namespace rlreplay::replay
