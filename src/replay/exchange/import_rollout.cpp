#include "src/replay/exchange/import_rollout.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "format/foreign/numbers.h"
#include "format/foreign/rollout_file.h"
#include "format/foreign/text.h"
#include "src/base/error.h"
#include "src/base/number_text.h"
#include "src/base/words.h"
#include "src/replay/exchange/import_experts.h"
#include "src/replay/exchange/own_datasets.h"
#include "src/replay/exchange/reward_components.h"
#include "src/replay/exchange/rollout_columns.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::RolloutFile;
using foreign::Tree;
using foreign::Value;
using format::Finish;
using format::Presence;
using format::RolloutData;

Finish finish_of(std::string_view status) {
  if (status == "completed") return Finish::kStop;
  if (status == "truncated") return Finish::kLength;
  if (status == "aborted") return Finish::kAborted;
  if (status == "failed") return Finish::kFailed;
  return Finish::kUnknown;
}

/// A version that is a number written as Python writes it.
std::optional<int64_t> version_number(std::string_view text) {
  const auto version = parse_number<int64_t>(text);
  return version && std::to_string(*version) == text ? version : std::nullopt;
}

/// One rollout of a framework as columns. `order` comes first: rows stand in ascending order of
/// ids, and every later function goes by order_. move_columns empties the lists of tokens in the
/// file's tree as it copies them; what reads tokens after it reads made_.data. take_own comes last:
/// what an export of ours put beside the samples overrules what they say.
class RolloutImporter {
 public:
  RolloutImporter(foreign::TorchFile& file, std::string owner, std::string_view reward_key)
      : file_(file),
        tree_(file.tree()),
        owner_(std::move(owner)),
        reward_key_(reward_key),
        batch_(read_rollout(file.tree(), file.root(), reward_key)),
        samples_(tree_.sequence(*tree_.find(file.root(), "samples"))) {
    made_.rollout_id = batch_.rollout_id;
    made_.data = std::make_shared<RolloutData>();
  }

  ImportedRollout run(Value root) {
    order();
    move_columns(file_, batch_, order_, owner_, *made_.data, made_.replacements);
    add_scalars();
    made_.data->trajectory_id = shared_ids(order_, batch_.trajectory);
    add_nuclei();
    add_components();
    add_versions();
    made_.data->experts = read_own_experts(from_, made_.data->sample_id, batch_.offsets.back());
    if (!made_.data->experts) add_routes();
    note_inputs();
    take_raw_rewards();
    take_own(root);
    return std::move(made_);
  }

  /// What an own export put beside the framework's columns, and nothing else.
  void check_own() {
    order();
    add_versions();
    made_.data->experts = read_own_experts(from_, made_.data->sample_id, batch_.offsets.back());
    take_own(file_.root());
  }

 private:
  void report(const char* code, const std::string& message) {
    made_.findings.push_back({code, message, owner_});
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
    report(
        "sample-id-replaced",
        "indices are missing, negative or occur twice: the place in the file is the sample's id");
  }

  void add_scalars() {
    RolloutData& data = *made_.data;
    data.group_id.emplace();
    data.rewards.emplace();
    data.finish.emplace();
    data.removed.emplace();
    Presence groups;
    Presence rewards;
    bool status = false;
    for (size_t row = 0; row < order_.size(); ++row) {
      const size_t i = order_[row];
      const std::optional<int64_t> group = batch_.group_index[i];
      groups.push_back(group && *group >= 0 ? 1 : 0);
      data.group_id->values.push_back(groups.back() ? static_cast<uint64_t>(*group) : 0);
      rewards.push_back(batch_.reward[i] ? 1 : 0);
      data.rewards->values.push_back(batch_.reward[i].value_or(0));
      data.finish->push_back(finish_of(batch_.status[i]));
      data.removed->values.push_back(is_removed(row) ? 1 : 0);
      status = status || !batch_.status[i].empty();
    }
    if (!status) data.finish.reset();
    if (std::ranges::count(data.removed->values, uint8_t{1}) == 0) data.removed.reset();
    keep_presence(data.group_id, std::move(groups));
    keep_presence(data.rewards, std::move(rewards));
  }

  /// Whether the framework sets the sample's mask to zeros when it makes training data.
  bool is_removed(size_t row) const {
    const Value* removed = from_.field(row, "remove_sample");
    return removed != nullptr && number(removed).value_or(0) != 0;
  }

  void add_components() {
    auto made = reward_components(tree_, samples_, order_);
    check_reward_key(made.columns ? made.columns->names : std::vector<std::string>(), made.any);
    made_.data->reward_components = std::move(made.columns);
    if (!made.rare.empty()) {
      report("components-unplaced", "numbers of rewards that fewer than one sample in " +
                                        std::to_string(kRarePart) +
                                        " has are kept in the file "
                                        "alone: " +
                                        joined(made.rare, ", "));
    }
  }

  /// `names`: of the columns. Errors: kUsage where no reward holds a number under the key; an
  /// evaluation's rewards may be others.
  void check_reward_key(const std::vector<std::string>& names, bool dicts) const {
    const bool taken =
        std::ranges::any_of(batch_.reward, [](const auto& r) { return r.has_value(); });
    if (reward_key_.empty() || !dicts || taken || owner_.starts_with("eval/")) return;
    throw Error(ErrorCode::kUsage, "no reward holds a number \"" + reward_key_ + "\"" +
                                       (names.empty() ? "" : "; there are " + joined(names, ", ")));
  }

  /// What a top-p sampler kept, token by token.
  void add_nuclei() {
    RolloutData& data = *made_.data;
    format::TokenSets& made = data.nucleus.emplace();
    Presence presence;
    for (size_t row = 0; row < order_.size(); ++row) {
      const size_t i = order_[row];
      const auto ids = numbers(batch_.nucleus[i]), offsets = numbers(batch_.nucleus_offsets[i]);
      presence.push_back(ids && offsets ? 1 : 0);
      made.sizes.resize(data.offsets[row] + (*data.prompt_length)[row]);
      for (size_t t = 0; offsets && t + 1 < offsets->size(); ++t) {
        made.sizes.push_back(static_cast<uint32_t>(offsets->integer(t + 1) - offsets->integer(t)));
      }
      made.sizes.resize(data.offsets[row + 1]);
      for (size_t k = 0; ids && k < ids->size(); ++k) {
        made.ids.push_back(static_cast<int32_t>(ids->integer(k)));
      }
      made.offsets.push_back(made.ids.size());
    }
    keep_presence(data.nucleus, std::move(presence));
  }

  std::optional<foreign::Numbers> numbers(Value value) const {
    return value.kind == Kind::kNone ? std::nullopt : foreign::Numbers::of(tree_, value);
  }

  static std::optional<double> number(const Value* value) {
    return value == nullptr ? std::nullopt : foreign::number_of(*value);
  }

  /// A sample with a version that is no number has none: one of its own would be another's.
  void add_versions() {
    if (batch_.weight_versions.empty()) return;
    format::Versions& versions = made_.data->versions.emplace();
    std::vector<std::string> refused;
    for (size_t row = 0; row < order_.size(); ++row) {
      const size_t i = order_[row], before = versions.versions.size();
      for (uint64_t v = batch_.version_offsets[i]; v < batch_.version_offsets[i + 1]; ++v) {
        const auto number = version_number(batch_.weight_versions[v]);
        if (number) {
          versions.versions.push_back(*number);
          continue;
        }
        refused.push_back("\"" + std::string(batch_.weight_versions[v]) + "\" of sample " +
                          std::to_string(made_.data->sample_id[row]));
        versions.versions.resize(before);
        break;
      }
      versions.offsets.push_back(versions.versions.size());
    }
    if (versions.versions.empty()) {
      report("version-not-a-number", "weight versions are not numbers: they are kept as texts");
      return made_.data->versions.reset();
    }
    if (!refused.empty()) {
      const size_t more = refused.size() - 1;
      report("version-not-a-number",
             "the weight version " + refused.front() +
                 (more == 0 ? "" : ", and one of " + counted(more, "other sample") + ",") +
                 " is no number: it is kept as text, and the sample has no versions");
    }
    add_version_starts(versions);
  }

  void add_version_starts(format::Versions& versions) const {
    std::vector<uint32_t> starts;
    for (size_t row = 0; row < order_.size(); ++row) {
      const std::optional<foreign::Numbers> list = from_.own_numbers(row, "version_starts");
      const uint64_t wanted = versions.offsets[row + 1] - versions.offsets[row];
      if (!list || list->size() != wanted) return;
      for (size_t v = 0; v < list->size(); ++v) {
        starts.push_back(
            checked<uint32_t>("version_starts", list->integer(v), made_.data->sample_id[row]));
      }
    }
    versions.starts = std::move(starts);
  }

  void add_routes() {
    Routes routes = read_routes(from_, *made_.data);
    if (!routes.refused.empty()) report("routes-unplaced", routes.refused);
    made_.data->experts = std::move(routes.experts);
  }

  void take_raw_rewards() {
    if (order_.empty()) return;
    const Value* metadata = tree_.find(samples_[0], "metadata");
    const bool record = metadata != nullptr && metadata->kind == Kind::kDict;
    if (!record || tree_.find(*metadata, "raw_reward") == nullptr) {
      made_.raw_rewards = batch_.reward;
    }
  }

  void note_inputs() {
    for (size_t row = 0; row < order_.size(); ++row) {
      const auto says = [&](const char* key) {
        return says_something(tree_, from_.field(row, key));
      };
      const Value* ours = from_.own(row, "other_inputs");
      const bool kept = ours != nullptr && ours->kind == Kind::kBool && ours->boolean;
      if (kept || says("multimodal_inputs") || says("multimodal_train_inputs")) {
        made_.with_inputs.insert(made_.data->sample_id[row]);
      }
    }
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

  foreign::TorchFile& file_;
  const Tree& tree_;
  std::string owner_, reward_key_;
  RolloutFile batch_;
  const foreign::Sequence& samples_;
  std::vector<size_t> order_;  // place in the file of each sample of the data
  const RolloutSamples from_{tree_, samples_, order_};
  ImportedRollout made_;
};

}  // namespace

bool says_something(const Tree& tree, const Value* value) {
  if (value == nullptr || value->kind == Kind::kNone) return false;
  const bool dict = value->kind == Kind::kDict;
  if (!dict && value->kind != Kind::kList) return true;
  const foreign::Sequence& items = tree.sequence(*value);
  for (size_t i = dict ? 1 : 0; i < items.size(); i += dict ? 2 : 1) {
    const Value item = items[i];
    if (says_something(tree, &item)) return true;
  }
  return false;
}

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

ImportedRollout import_rollout(foreign::TorchFile& file, const std::string& owner,
                               std::string_view reward_key) {
  return RolloutImporter(file, owner, reward_key).run(file.root());
}

void check_rollout_file(foreign::TorchFile& file) {
  RolloutImporter(file, "rollout", {}).check_own();
}

}  // namespace rlreplay::replay
