#include "src/replay/exchange/kept_difference.h"

#include <optional>

#include "format/foreign/numbers.h"
#include "format/foreign/tree_difference.h"
#include "format/group_name.h"
#include "format/unit.h"
#include "src/base/error.h"
#include "src/replay/exchange/kept_file.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::Tree;
using foreign::Value;

/// A kept file, with what its places refer to.
class Kept {
 public:
  Kept(const format::DumpReader& dump, const format::UnitRecord& record) {
    const format::UnitReader unit = dump.open_unit(record);
    const std::string group = record.groups.empty() ? "" : record.groups.front();
    if (const auto id = format::parse_rollout(group)) add_native(dump, unit, *id);
    file_.emplace(dump, unit, native_, content_bytes(dump));
  }

  const Tree& tree() { return file_->tree(); }
  Value root() const { return file_->root(); }
  const std::string& name() const { return file_->name(); }

 private:
  void add_native(const format::DumpReader& dump, const format::UnitReader& unit, int64_t id) {
    const std::string group = std::to_string(id);
    if (auto rollout = find_rollout_data(dump, id)) {
      native_.rollouts.emplace("rollout/" + group, std::move(*rollout));
    }
    if (unit.find(group + "/tokens") != nullptr) {
      native_.rollouts.emplace("eval/" + group, read_rollout_data(dump, unit, group));
    }
    for (const format::UnitRecord& record : dump.units()) {
      if (format::kind_of(record.path) != "train") continue;
      for (const std::string& step : record.groups) {
        const auto name = format::GroupName::parse(step);
        if (!name || name->rollout != id) continue;
        native_.trains.emplace("train/" + step,
                               read_train_data(dump, dump.open_unit(record), step));
      }
    }
  }

  NativeData native_;
  std::optional<RestoredFile> file_;
};

const format::UnitRecord* find_unit(const format::DumpReader& dump, const std::string& path) {
  for (const format::UnitRecord& record : dump.units()) {
    if (record.path == path) return &record;
  }
  return nullptr;
}

std::optional<int64_t> integer(const Tree& tree, Value record, std::string_view key) {
  const Value* value = tree.find(record, key);
  return value != nullptr && value->kind == Kind::kInt ? std::optional(value->integer)
                                                       : std::nullopt;
}

bool names_sample(const Tree& tree, Value record, int64_t sample) {
  const Value* indices = tree.find(record, "sample_indices");
  const auto numbers = indices == nullptr ? std::nullopt : foreign::Numbers::of(tree, *indices);
  return numbers && numbers->is_integer() &&
         numbers->find([&](auto x) { return static_cast<int64_t>(x) == sample; }).has_value();
}

/// The rank that trains on a sample, by a file of training data.
std::optional<int64_t> rank_in(const Tree& tree, Value root, int64_t sample) {
  if (root.kind != Kind::kDict) return std::nullopt;
  if (const Value* data = tree.find(root, "rollout_data")) {
    return names_sample(tree, *data, sample) ? integer(tree, root, "rank") : std::nullopt;
  }
  const Value* shards = tree.find(root, "dp_shards");
  const Value* list = shards != nullptr ? shards : tree.find(root, "samples");
  if (list == nullptr || list->kind != Kind::kList) return std::nullopt;
  for (size_t i = 0; i < tree.sequence(*list).size(); ++i) {
    const Value item = tree.sequence(*list)[i];
    if (shards != nullptr && names_sample(tree, item, sample)) return integer(tree, item, "rank");
    if (shards == nullptr && integer(tree, item, "sample_indices") == sample) {
      return integer(tree, root, "rank");
    }
  }
  return std::nullopt;
}

}  // namespace

std::string kept_difference(const format::DumpReader& a, const format::DumpReader& b,
                            const std::string& unit) {
  const format::UnitRecord *in_a = find_unit(a, unit), *in_b = find_unit(b, unit);
  if (in_a == nullptr || in_b == nullptr) return {};
  try {
    Kept x(a, *in_a), y(b, *in_b);
    const auto found = tree_difference(x.tree(), x.root(), y.tree(), y.root());
    return found ? found->place + ": " + found->a + ", in B " + found->b : "";
  } catch (const Error&) {
    return {};  // verify --deep says what is wrong with it
  }
}

std::string kept_shard(const format::DumpReader& dump, int64_t rollout, uint64_t sample) {
  const std::string group = std::to_string(rollout);
  for (const format::UnitRecord& record : dump.units()) {
    const bool trained =
        record.path.starts_with("x-") && record.path.find("/train_data/") != std::string::npos;
    if (!trained || record.groups.empty() || record.groups.front() != group) continue;
    try {
      Kept kept(dump, record);
      const auto rank = rank_in(kept.tree(), kept.root(), static_cast<int64_t>(sample));
      if (rank) return kept.name() + " (rank " + std::to_string(*rank) + ")";
    } catch (const Error&) {
      continue;
    }
  }
  return {};
}

}  // namespace rlreplay::replay
