#include "src/replay/exchange/train_schedule.h"

#include "format/foreign/numbers.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::Numbers;
using foreign::Tree;
using foreign::Value;

/// Adds the samples of one shard: a dict of sample_indices, and of micro_batch_indices (rows of
/// each micro-batch) and num_microbatches (of each step).
bool add_shard(const Tree& tree, Value shard, const std::string& path,
               std::map<int64_t, int64_t>& steps) {
  const auto numbers = [&](const char* key) -> std::optional<Numbers> {
    const Value* value = tree.find(shard, key);
    return value == nullptr ? std::nullopt : Numbers::of(tree, *value);
  };
  const std::optional<Numbers> samples = numbers("sample_indices");
  const std::optional<Numbers> counts = numbers("num_microbatches");
  const Value* batches = tree.find(shard, "micro_batch_indices");
  if (!samples || !counts || batches == nullptr || batches->kind != Kind::kList) return false;
  if (!samples->is_integer() || !counts->is_integer()) return false;
  const foreign::Sequence& list = tree.sequence(*batches);
  size_t batch = 0;
  for (size_t step = 0; step < counts->size(); ++step) {
    for (int64_t i = 0; i < counts->integer(step) && batch < list.size(); ++i, ++batch) {
      const std::optional<Numbers> rows = Numbers::of(tree, list[batch]);
      if (!rows || !rows->is_integer()) return false;
      for (size_t k = 0; k < rows->size(); ++k) {
        const int64_t row = rows->integer(k);
        if (row < 0 || static_cast<size_t>(row) >= samples->size()) {
          throw Error(ErrorCode::kCorrupt, "a micro-batch names a row that is not there", path);
        }
        const int64_t sample = samples->integer(static_cast<size_t>(row));
        const auto [it, fresh] = steps.emplace(sample, static_cast<int64_t>(step));
        if (fresh || it->second == static_cast<int64_t>(step)) continue;
        throw Error(ErrorCode::kCorrupt,
                    "sample " + std::to_string(sample) + " is trained on in two steps", path);
      }
    }
  }
  return true;
}

}  // namespace

std::optional<std::map<int64_t, int64_t>> read_schedule(const foreign::TorchFile& file) {
  const Tree& tree = file.tree();
  std::map<int64_t, int64_t> steps;
  if (const Value* data = tree.find(file.root(), "rollout_data")) {
    if (!add_shard(tree, *data, file.path(), steps)) return std::nullopt;
    return steps;
  }
  const Value* shards = tree.find(file.root(), "dp_shards");
  if (shards == nullptr || shards->kind != Kind::kList) return std::nullopt;
  const foreign::Sequence& list = tree.sequence(*shards);
  for (size_t i = 0; i < list.size(); ++i) {
    if (!add_shard(tree, list[i], file.path(), steps)) return std::nullopt;
  }
  return steps;
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
