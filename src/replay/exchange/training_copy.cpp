#include "src/replay/exchange/training_copy.h"

#include "format/foreign/framework.h"
#include "format/foreign/tree_difference.h"
#include "src/base/words.h"

namespace rlreplay::replay {

using foreign::Kind;
using foreign::TrainShard;
using foreign::Value;

std::optional<Value> copy_of(const TrainShard& shard, size_t row, std::string_view column) {
  const auto cell = shard.is_by_sample(column) ? shard.find(row, column) : std::nullopt;
  return cell && cell->kind != Kind::kNone ? cell : std::nullopt;
}

bool repeats(const TrainShard& shard, std::string_view column) {
  if (!shard.is_by_sample(column)) return false;
  for (size_t row = 0; row < shard.indices().size(); ++row) {
    if (shard.find(row, column)) return true;
  }
  return false;
}

bool has_index_as_id(const foreign::TorchFile& rollout) {
  return identify_dump(rollout.tree(), rollout.root()).framework == foreign::Framework::kMiles;
}

std::string size_text(const foreign::Tree& tree, Value value) {
  const auto numbers = foreign::Numbers::of(tree, value);
  return numbers ? counted(numbers->size(), "number") : in_words(tree, value);
}

foreign::Problem rollout_mismatch(const TrainShard& shard, std::string_view column, int64_t sample,
                                  const std::string& place, const std::string& found,
                                  const std::string& said) {
  return {"rollout-mismatch",
          std::string(column) + " of the training data is not what the rollout says",
          shard.path() + ": sample " + std::to_string(sample) + place + ": " + found +
              ", the rollout says " + said};
}

}  // namespace rlreplay::replay
