#include "src/replay/exchange/metadata_copies.h"

#include <algorithm>
#include <string>

#include "format/foreign/numbers.h"
#include "format/foreign/train_columns.h"
#include "src/base/words.h"

namespace rlreplay::replay {
namespace {

using foreign::kTrainColumns;
using foreign::Problem;
using foreign::TrainColumn;
using foreign::Tree;
using foreign::Value;

/// An integer, or those of a list or tensor; nothing of something else.
std::vector<int64_t> integers_of(const Tree& tree, const Value* value) {
  if (value == nullptr) return {};
  if (value->kind == foreign::Kind::kInt) return {value->integer};
  const auto numbers = foreign::Numbers::of(tree, *value);
  std::vector<int64_t> out;
  for (size_t i = 0; numbers && numbers->is_integer() && i < numbers->size(); ++i) {
    out.push_back(numbers->integer(i));
  }
  return out;
}

}  // namespace

MetadataCopies::MetadataCopies(const foreign::TorchFile& rollout) {
  const Tree& tree = rollout.tree();
  const Value* metadata = tree.find(rollout.root(), "metadata");
  if (metadata == nullptr || metadata->kind != foreign::Kind::kDict) return;
  for (const TrainColumn& column : kTrainColumns) {
    if (column.repeats != foreign::Repeats::kInMetadata) continue;
    auto said = integers_of(tree, tree.find(*metadata, column.field));
    if (!said.empty()) said_.emplace(column.name, std::move(said));
  }
}

std::vector<Problem> MetadataCopies::compare(const foreign::TrainShard& training) const {
  std::vector<Problem> problems;
  for (const auto& [name, said] : said_) {
    const auto own = integers_of(training.tree(), training.batch_value(name));
    if (own.empty() || own == said) continue;
    const auto at = static_cast<size_t>(std::ranges::mismatch(own, said).in1 - own.begin());
    const bool other_size = own.size() != said.size();
    const auto text = [&](const std::vector<int64_t>& numbers) {
      return other_size ? counted(numbers.size(), "number") : std::to_string(numbers[at]);
    };
    const std::string place = other_size || said.size() == 1 ? "" : "[" + std::to_string(at) + "]";
    problems.push_back({"rollout-mismatch",
                        std::string(name) + " of the training data is not what the rollout says",
                        training.path() + ": " + std::string(name) + place + ": " + text(own) +
                            ", the rollout says " + text(said)});
  }
  return problems;
}

}  // namespace rlreplay::replay
