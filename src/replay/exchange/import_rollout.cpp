#include "src/replay/exchange/import_rollout.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>
#include <utility>

#include "format/foreign/numbers.h"
#include "format/foreign/rollout_batch.h"
#include "format/foreign/text.h"
#include "src/replay/exchange/cell.h"
#include "src/replay/exchange/own_datasets.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::RolloutBatch;
using foreign::Tree;
using foreign::Value;
using format::Finish;
using format::Presence;
using format::RolloutData;
using format::Texts;

/// Every sample's value of one field: absent where none has it, a mask where some have.
template <class Field>
void settle(std::optional<Field>& field, Presence presence) {
  const auto count = static_cast<size_t>(std::count(presence.begin(), presence.end(), 1));
  if (count == 0) {
    field.reset();
  } else if (count != presence.size()) {
    field->presence = std::move(presence);
  }
}

Finish finish_of(std::string_view status) {
  if (status == "completed") return Finish::kStop;
  if (status == "truncated") return Finish::kLength;
  if (status == "aborted") return Finish::kAborted;
  if (status == "failed") return Finish::kFailed;
  return Finish::kUnknown;
}

/// A version that is a number written as Python writes it.
std::optional<int64_t> version_number(std::string_view text) {
  int64_t version = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), version);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  if (!whole || std::to_string(version) != text) return std::nullopt;
  return version;
}

class Importer {
 public:
  Importer(const foreign::TorchFile& file, std::string owner, std::string_view reward_key)
      : tree_(file.tree()),
        owner_(std::move(owner)),
        batch_(read_rollout(file.tree(), file.root(), reward_key)),
        samples_(tree_.sequence(*tree_.find(file.root(), "samples"))) {
    made_.rollout_id = batch_.rollout_id;
    made_.data = std::make_shared<RolloutData>();
  }

  ImportedRollout run(Value root) {
    order();
    add_tokens();
    add_log_probs();
    add_mask();
    add_scalars();
    add_components();
    add_versions();
    add_experts();
    RolloutData& data = *made_.data;
    data.prompt_text = texts("prompt");
    data.response_text = texts("response");
    data.label_text = texts("label");
    replace();
    take_own(root);
    return std::move(made_);
  }

 private:
  void report(const char* code, const std::string& message) {
    made_.findings.push_back({code, message, owner_});
  }

  const Value* field(size_t i, std::string_view key) const {
    const Value* value = tree_.find(samples_[i], key);
    return value == nullptr || value->kind == Kind::kNone ? nullptr : value;
  }

  void order() {
    const std::vector<uint64_t> ids = sample_ids(batch_.index);
    order_.resize(batch_.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::sort(order_.begin(), order_.end(), [&](size_t a, size_t b) { return ids[a] < ids[b]; });
    bool replaced = false;
    for (const size_t i : order_) {
      made_.data->sample_id.push_back(ids[i]);
      replaced = replaced || batch_.index[i] != static_cast<int64_t>(ids[i]);
    }
    if (!replaced) return;
    report("sample-id-replaced",
           "indices are missing or occur twice: the place in the file is the sample's id");
  }

  void add_tokens() {
    RolloutData& data = *made_.data;
    data.prompt_length.emplace();
    const std::vector<int32_t> tokens = std::exchange(batch_.tokens, {});  // a copy at a time
    data.tokens.reserve(tokens.size());
    for (const size_t i : order_) {
      data.tokens.insert(data.tokens.end(),
                         tokens.begin() + static_cast<ptrdiff_t>(batch_.offsets[i]),
                         tokens.begin() + static_cast<ptrdiff_t>(batch_.offsets[i + 1]));
      data.offsets.push_back(data.tokens.size());
      const uint64_t total = batch_.offsets[i + 1] - batch_.offsets[i];
      const auto response = static_cast<uint64_t>(batch_.response_lengths[i]);
      data.prompt_length->push_back(static_cast<uint32_t>(total - response));
    }
  }

  uint64_t prompt(size_t i) const {
    return batch_.offsets[i + 1] - batch_.offsets[i] -
           static_cast<uint64_t>(batch_.response_lengths[i]);
  }

  void add_log_probs() {
    format::TokenFloats& column = made_.data->log_probs.emplace();
    Presence presence;
    const auto fill = [&](auto& values, const auto& rows) {
      values.reserve(made_.data->tokens.size());
      for (const size_t i : order_) {
        const bool present = field(i, "rollout_log_probs") != nullptr;
        presence.push_back(present ? 1 : 0);
        values.resize(values.size() + prompt(i));
        const auto begin = rows.begin() + static_cast<ptrdiff_t>(batch_.log_probs.offsets()[i]);
        values.insert(values.end(), begin,
                      begin + static_cast<ptrdiff_t>(batch_.log_probs.row_size(i)));
        if (!present) {
          values.resize(values.size() + static_cast<uint64_t>(batch_.response_lengths[i]));
        }
      }
    };
    if (batch_.log_probs.is_narrow()) {
      fill(column.narrow, batch_.log_probs.narrow());
    } else {
      fill(column.wide, batch_.log_probs.wide());
    }
    batch_.log_probs = foreign::TokenColumn("");
    settle(made_.data->log_probs, std::move(presence));
  }

  void add_mask() {
    std::vector<uint8_t>& values = made_.data->loss_mask.emplace().values;
    Presence presence;
    for (const size_t i : order_) {
      const bool present = field(i, "loss_mask") != nullptr;
      presence.push_back(present ? 1 : 0);
      values.resize(values.size() + prompt(i));
      const auto begin = batch_.loss_mask.begin();
      values.insert(values.end(), begin + static_cast<ptrdiff_t>(batch_.mask_offsets[i]),
                    begin + static_cast<ptrdiff_t>(batch_.mask_offsets[i + 1]));
      if (!present) {
        values.resize(values.size() + static_cast<uint64_t>(batch_.response_lengths[i]));
      }
    }
    batch_.loss_mask = {};
    settle(made_.data->loss_mask, std::move(presence));
  }

  void add_scalars() {
    RolloutData& data = *made_.data;
    data.group_id.emplace();
    data.rewards.emplace();
    data.finish.emplace();
    Presence groups;
    Presence rewards;
    bool status = false;
    for (const size_t i : order_) {
      const std::optional<int64_t> group = batch_.group_index[i];
      groups.push_back(group && *group >= 0 ? 1 : 0);
      data.group_id->values.push_back(groups.back() ? static_cast<uint64_t>(*group) : 0);
      rewards.push_back(batch_.reward[i] ? 1 : 0);
      data.rewards->values.push_back(batch_.reward[i].value_or(0));
      data.finish->push_back(finish_of(batch_.status[i]));
      status = status || !batch_.status[i].empty();
    }
    if (!status) data.finish.reset();
    settle(data.group_id, std::move(groups));
    settle(data.rewards, std::move(rewards));
  }

  /// What this program's own export put into a sample's metadata.
  const Value* own(size_t i, std::string_view key) const {
    const Value* metadata = field(i, "metadata");
    const Value* ours = metadata == nullptr ? nullptr : tree_.find(*metadata, "rlreplay");
    return ours == nullptr ? nullptr : tree_.find(*ours, key);
  }

  /// A reward that is a dict, or the components that this program's own export wrote.
  const Value* components(size_t i) const {
    const Value* reward = field(i, "reward");
    if (reward == nullptr || reward->kind != Kind::kDict) reward = own(i, "reward_components");
    return reward == nullptr || reward->kind != Kind::kDict ? nullptr : reward;
  }

  /// The numbers of rewards that are dicts: the keys that every such reward has.
  void add_components() {
    std::vector<std::string> names;
    bool found = false;
    for (const size_t i : order_) {
      const Value* reward = components(i);
      if (reward == nullptr) continue;
      const auto items = tree_.sequence(*reward).values();
      for (size_t k = 0; !found && k < items.size(); k += 2) {
        if (items[k].kind == Kind::kText) names.emplace_back(tree_.text(items[k]));
      }
      found = true;
      std::erase_if(names, [&](const std::string& name) {
        return !number(tree_.find(*reward, name)) || name.find('\n') != name.npos ||
               foreign::has_surrogates(name);
      });
    }
    if (names.empty()) return;
    format::NamedColumns& made = made_.data->reward_components.emplace();
    made.names = names;
    Presence presence;
    for (const size_t i : order_) {
      const Value* reward = components(i);
      const bool present = reward != nullptr;
      presence.push_back(present ? 1 : 0);
      for (const std::string& name : names) {
        made.values.push_back(present ? *number(tree_.find(*reward, name)) : 0);
      }
    }
    settle(made_.data->reward_components, std::move(presence));
  }

  static std::optional<double> number(const Value* value) {
    if (value == nullptr) return std::nullopt;
    if (value->kind == Kind::kFloat) return value->real;
    if (value->kind == Kind::kInt) return static_cast<double>(value->integer);
    if (value->kind == Kind::kBool) return value->boolean ? 1 : 0;
    return std::nullopt;
  }

  void add_versions() {
    if (batch_.weight_versions.empty()) return;
    format::Versions& versions = made_.data->versions.emplace();
    for (const size_t i : order_) {
      for (uint64_t v = batch_.version_offsets[i]; v < batch_.version_offsets[i + 1]; ++v) {
        const auto number = version_number(batch_.weight_versions[v]);
        if (!number) {
          report("version-not-a-number", "weight versions are not numbers: they are kept as texts");
          return made_.data->versions.reset();
        }
        versions.versions.push_back(*number);
      }
      versions.offsets.push_back(versions.versions.size());
    }
    add_version_starts(versions);
  }

  void add_version_starts(format::Versions& versions) const {
    std::vector<uint32_t> starts;
    for (size_t row = 0; row < order_.size(); ++row) {
      const std::optional<foreign::Numbers> list = own_numbers(order_[row], "version_starts");
      const uint64_t wanted = versions.offsets[row + 1] - versions.offsets[row];
      if (!list || list->size() != wanted) return;
      for (size_t v = 0; v < list->size(); ++v) {
        starts.push_back(static_cast<uint32_t>(list->integer(v)));
      }
    }
    versions.starts = std::move(starts);
  }

  std::optional<foreign::Numbers> own_numbers(size_t i, std::string_view key) const {
    const Value* value = own(i, key);
    if (value == nullptr) return std::nullopt;
    const auto numbers = foreign::Numbers::of(tree_, *value);
    return numbers && numbers->is_integer() ? numbers : std::nullopt;
  }

  /// The experts that this program's own export wrote, where every sample has them.
  void add_experts() {
    format::Experts made;
    for (size_t row = 0; row < order_.size(); ++row) {
      const auto shape = own_numbers(order_[row], "experts_shape");
      const auto ids = own_numbers(order_[row], "experts");
      if (!shape || !ids || shape->size() != 2) return;
      made.layers = static_cast<uint64_t>(shape->integer(0));
      made.slots = static_cast<uint64_t>(shape->integer(1));
      for (size_t e = 0; e < ids->size(); ++e) {
        made.experts.push_back(static_cast<uint16_t>(ids->integer(e)));
      }
    }
    const uint64_t wanted = made_.data->tokens.size() * made.layers * made.slots;
    if (!order_.empty() && made.experts.size() == wanted) made_.data->experts = std::move(made);
  }

  std::optional<Texts> texts(std::string_view key) const {
    std::optional<Texts> made(std::in_place);
    Presence presence;
    for (const size_t i : order_) {
      const Value* value = field(i, key);
      const bool present = value != nullptr && value->kind == Kind::kText &&
                           !foreign::has_surrogates(tree_.text(*value));
      presence.push_back(present ? 1 : 0);
      made->add(present ? tree_.text(*value) : std::string_view());
    }
    settle(made, std::move(presence));
    return made;
  }

  void take_own(Value root) {
    const Value* absent = find_own(tree_, root, "absent");
    if (absent != nullptr && absent->kind == Kind::kText && tree_.text(*absent) == "finish") {
      made_.data->finish.reset();
    }
    const Value* datasets = find_own(tree_, root, "datasets");
    if (datasets == nullptr) return;
    made_.own = read_own_datasets(tree_, *datasets, std::to_string(made_.rollout_id));
  }

  /// Notes the parts of the file that the data holds, type and bits.
  void replace() {
    for (size_t row = 0; row < order_.size(); ++row) {
      replace_field(row, "tokens", "tokens");
      replace_field(row, "rollout_log_probs", "log_probs");
      replace_field(row, "loss_mask", "loss_mask");
      replace_field(row, "prompt", "prompt_text");
      replace_field(row, "response", "response_text");
    }
  }

  void replace_field(size_t row, std::string_view key, std::string_view dataset) {
    const Value* value = field(order_[row], key);
    if (value == nullptr || (value->kind != Kind::kList && value->kind != Kind::kText)) return;
    const std::optional<Cell> cell = find_cell(*made_.data, dataset, row);
    if (!cell || !holds(tree_, *value, *cell)) return;
    made_.replacements.emplace(foreign::part_key(*value),
                               owner_ + "/" + std::string(dataset) + "/" + std::to_string(row));
  }

  const Tree& tree_;
  std::string owner_;
  RolloutBatch batch_;
  const foreign::Sequence& samples_;
  std::vector<size_t> order_;  // place in the file of each sample of the data
  ImportedRollout made_;
};

}  // namespace

std::vector<uint64_t> sample_ids(const std::vector<std::optional<int64_t>>& indices) {
  std::set<int64_t> seen;
  bool sound = true;
  for (const auto& index : indices) {
    sound = sound && index && *index >= 0 && seen.insert(*index).second;
  }
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < indices.size(); ++i) {
    ids.push_back(sound ? static_cast<uint64_t>(*indices[i]) : i);
  }
  return ids;
}

ImportedRollout import_rollout(const foreign::TorchFile& file, const std::string& owner,
                               std::string_view reward_key) {
  return Importer(file, owner, reward_key).run(file.root());
}

}  // namespace rlreplay::replay
