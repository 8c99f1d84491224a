#include "format/foreign/train_shard.h"

#include <cmath>
#include <set>

#include "format/foreign/dump_check.h"
#include "format/foreign/tree_difference.h"
#include "src/base/number_text.h"

namespace rlreplay::foreign {
namespace {

std::optional<int64_t> as_integer(double x) {
  constexpr double kExact = 9007199254740992;  // 2^53
  if (std::trunc(x) != x || std::fabs(x) > kExact) return std::nullopt;
  return static_cast<int64_t>(x);
}

}  // namespace

TrainShard::TrainShard(const TorchFile& file) : file_(&file) {
  const Tree& tree = file.tree();
  if (const auto wrong = unknown_version(tree, file.root())) {
    throw Error(ErrorCode::kUnsupported, *wrong, file.path());
  }
  const DumpKind kind = dump_kind(tree, file.root());
  if (kind != DumpKind::kTrainRank && kind != DumpKind::kTrainSamples) {
    throw Error(ErrorCode::kUnsupported, "this is no dump of training data", file.path());
  }
  by_row_ = kind == DumpKind::kTrainSamples;
  data_ = *tree.find(file.root(), by_row_ ? "samples" : "rollout_data");
  const std::optional<int64_t> id = integer("rollout_id");
  if (!id) {
    throw Error(ErrorCode::kCorrupt,
                "rollout_id is missing: nothing else says which rollout was trained on", path());
  }
  if (*id < 0) throw Error(ErrorCode::kCorrupt, negative_rollout(*id), path());
  rollout_id_ = *id;
  rank_ = integer("rank").value_or(0);
  cp_rank_ = integer("cp_rank");
  cp_size_ = integer("cp_size");
  whole_ = tree.find(file.root(), "format_version") != nullptr;
  if (!whole_ && by_row_ && tree.find(file.root(), "dp_shards") != nullptr) {
    throw Error(ErrorCode::kCorrupt,
                "format_version is missing, which a file with dp_shards must say", path());
  }
  size_t rows = 0;
  if (by_row_) {
    rows = tree.sequence(data_).size();
  } else {
    const Value* tokens = tree.find(data_, "tokens");
    if (tokens == nullptr || tokens->kind != Kind::kList) {
      throw Error(ErrorCode::kCorrupt, "rollout_data has no list of tokens", path());
    }
    rows = tree.sequence(*tokens).size();
  }
  // Where slime stores the index of a sample, Relax stores the row under the same name.
  const char* key = whole_ ? "sample_index" : "sample_indices";
  for (size_t i = 0; i < rows; ++i) indices_.push_back(length(i, key));
}

std::optional<int64_t> TrainShard::integer(std::string_view key) const {
  const Value* value = file_->tree().find(file_->root(), key);
  if (value == nullptr || value->kind == Kind::kNone) return std::nullopt;
  if (value->kind == Kind::kInt) return value->integer;
  throw Error(ErrorCode::kCorrupt, unlike_text(file_->tree(), key, value, "not an integer"),
              path());
}

std::string TrainShard::place(size_t row) const {
  const bool known = row < indices_.size();  // else it is about the index itself
  return path() +
         (known ? ": sample " + std::to_string(indices_[row]) : ": row " + std::to_string(row));
}

std::optional<Value> TrainShard::find(size_t row, std::string_view column) const {
  const Tree& tree = file_->tree();
  if (by_row_) {
    const Value* cell = tree.find(tree.sequence(data_)[row], column);
    return cell == nullptr ? std::nullopt : std::optional<Value>(*cell);
  }
  const Value* values = tree.find(data_, column);
  if (values == nullptr || values->kind != Kind::kList) return std::nullopt;
  const Sequence& list = tree.sequence(*values);
  if (row >= list.size()) {
    throw Error(ErrorCode::kCorrupt,
                std::string(column) + " has " + std::to_string(list.size()) +
                    " entries, there are more samples",
                path());
  }
  return list[row];
}

std::optional<Numbers> TrainShard::cell(size_t row, std::string_view column) const {
  const std::optional<Value> value = find(row, column);
  return value ? Numbers::of(file_->tree(), *value) : std::nullopt;
}

std::optional<double> TrainShard::scalar(size_t row, std::string_view column) const {
  const std::optional<Value> value = find(row, column);
  if (!value || value->kind == Kind::kNone) return std::nullopt;
  if (value->kind == Kind::kInt) return static_cast<double>(value->integer);
  if (value->kind == Kind::kFloat) return value->real;
  const std::optional<Numbers> numbers = Numbers::of(file_->tree(), *value);
  if (numbers && numbers->size() == 1) return numbers->real(0);
  throw Error(ErrorCode::kCorrupt, unlike_text(file_->tree(), column, &*value, "not a number"),
              place(row));
}

int64_t TrainShard::length(size_t row, std::string_view column) const {
  const std::optional<Value> value = find(row, column);
  if (value && value->kind == Kind::kInt && value->integer >= 0) return value->integer;
  throw Error(
      ErrorCode::kCorrupt,
      unlike_text(file_->tree(), column, value ? &*value : nullptr, "not an integer of 0 or more"),
      place(row));
}

std::optional<double> TrainShard::number(size_t row, std::string_view column) const {
  const Value* values = by_row_ ? nullptr : file_->tree().find(data_, column);
  if (values == nullptr || values->kind == Kind::kList || values->kind == Kind::kNone) {
    return scalar(row, column);
  }
  auto known = columns_.find(column);
  if (known == columns_.end()) {
    known = columns_.emplace(column, Numbers::of(file_->tree(), *values)).first;
  }
  const std::optional<Numbers>& numbers = known->second;
  if (numbers && numbers->size() == indices_.size()) return numbers->real(row);
  throw Error(ErrorCode::kCorrupt,
              std::string(column) + " is not a number for each of " +
                  std::to_string(indices_.size()) + " samples",
              path());
}

std::optional<int64_t> TrainShard::whole_number(size_t row, std::string_view column) const {
  const std::optional<Value> value = find(row, column);
  if (value && value->kind == Kind::kInt) return value->integer;
  const std::optional<double> found = number(row, column);
  return found ? as_integer(*found) : std::nullopt;
}

std::optional<int64_t> TrainShard::token_count(size_t row, std::string_view column) const {
  const std::optional<double> found = number(row, column);
  if (!found) return std::nullopt;
  const std::optional<int64_t> count = as_integer(*found);
  if (count && *count >= 0) return count;
  throw Error(ErrorCode::kCorrupt,
              std::string(column) + " is " + shortest(*found) + ", which is no number of tokens",
              place(row));
}

std::vector<std::string> TrainShard::columns() const {
  std::vector<std::string> out;
  std::set<std::string_view> seen;
  const auto add_keys = [&](Value record) {
    const Sequence& items = tree().sequence(record);
    for (size_t i = record.kind == Kind::kObject ? 1 : 0; i + 1 < items.size(); i += 2) {
      const bool is_new = items[i].kind == Kind::kText && seen.insert(tree().text(items[i])).second;
      if (is_new) out.emplace_back(tree().text(items[i]));
    }
  };
  if (!by_row_) add_keys(data_);
  for (size_t row = 0; by_row_ && row < indices_.size(); ++row) {
    add_keys(tree().sequence(data_)[row]);
  }
  return out;
}

bool TrainShard::has(std::string_view column) const {
  const auto is_said = [](const Value* value) {
    return value != nullptr && value->kind != Kind::kNone;
  };
  if (!by_row_) return is_said(tree().find(data_, column));
  for (size_t row = 0; row < indices_.size(); ++row) {
    if (is_said(tree().find(tree().sequence(data_)[row], column))) return true;
  }
  return false;
}

bool TrainShard::is_by_sample(std::string_view column) const {
  if (by_row_) return true;
  const Value* values = tree().find(data_, column);
  return values != nullptr && values->kind == Kind::kList &&
         tree().sequence(*values).size() == indices_.size();
}

const Value* TrainShard::batch_value(std::string_view name) const {
  return tree().find(by_row_ ? file_->root() : data_, name);
}

}  // namespace rlreplay::foreign
