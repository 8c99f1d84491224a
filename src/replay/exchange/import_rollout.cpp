#include "src/replay/exchange/import_rollout.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>

#include "format/foreign/numbers.h"
#include "format/foreign/rollout_file.h"
#include "format/foreign/text.h"
#include "src/base/error.h"
#include "src/base/words.h"
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
  int64_t version = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), version);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  if (!whole || std::to_string(version) != text) return std::nullopt;
  return version;
}

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
    add_experts();
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
    add_experts();
    take_own(file_.root());
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

  void add_scalars() {
    RolloutData& data = *made_.data;
    data.group_id.emplace();
    data.rewards.emplace();
    data.finish.emplace();
    data.removed.emplace();
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
      data.removed->values.push_back(is_removed(i) ? 1 : 0);
      status = status || !batch_.status[i].empty();
    }
    if (!status) data.finish.reset();
    if (std::ranges::count(data.removed->values, uint8_t{1}) == 0) data.removed.reset();
    keep_presence(data.group_id, std::move(groups));
    keep_presence(data.rewards, std::move(rewards));
  }

  /// Whether the framework sets the sample's mask to zeros when it makes training data.
  bool is_removed(size_t i) const {
    const Value* removed = field(i, "remove_sample");
    return removed != nullptr && number(removed).value_or(0) != 0;
  }

  /// What this program's own export put into a sample's metadata.
  const Value* own(size_t i, std::string_view key) const {
    return own_value(tree_, samples_[i], key);
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
      const std::optional<foreign::Numbers> list = own_numbers(order_[row], "version_starts");
      const uint64_t wanted = versions.offsets[row + 1] - versions.offsets[row];
      if (!list || list->size() != wanted) return;
      for (size_t v = 0; v < list->size(); ++v) {
        starts.push_back(checked<uint32_t>(row, "version_starts", list->integer(v)));
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

  /// What routers chose, as frameworks keep it: [tokens - 1, layers, slots] of a sample, for the
  /// last token was given to no router. A sample without has recorded none of its tokens.
  void add_routes() {
    std::vector<std::optional<foreign::Numbers>> routes;
    std::optional<format::Experts> made;
    for (size_t row = 0; row < order_.size(); ++row) {
      const Value* value = field(order_[row], "rollout_routed_experts");
      routes.push_back(value == nullptr ? std::nullopt : placed(*value, row, made));
      if (value == nullptr || routes.back()) continue;
      report("routes-unplaced", "rollout_routed_experts of " + sample(row) +
                                    " are no integers from 0 to 65535 of all tokens but the last, "
                                    "by layer and slot, as many as of other samples: they are kept "
                                    "in the file alone");
      return;
    }
    if (!made || !are_worth(routes, *made)) return;
    const uint64_t size = made->layers * made->slots;
    made->recorded.emplace();
    for (size_t row = 0; row < order_.size(); ++row) {
      const uint64_t tokens = made_.data->offsets[row + 1] - made_.data->offsets[row];
      const uint64_t rows = routes[row] && tokens > 0 ? tokens - 1 : 0;
      for (uint64_t e = 0; e < rows * size; ++e) {
        made->experts.push_back(static_cast<uint16_t>(routes[row]->integer(e)));
      }
      made->experts.resize(made_.data->offsets[row + 1] * size);
      made->recorded->resize(made_.data->offsets[row] + rows, 1);
      made->recorded->resize(made_.data->offsets[row + 1]);
    }
    made_.data->experts = std::move(made);
  }

  /// Whether there is about as much in the file as the column takes, zeros of others included.
  bool are_worth(std::span<const std::optional<foreign::Numbers>> routes,
                 const format::Experts& made) {
    uint64_t given = 0, size = 0, taken = 0;
    for (const auto& numbers : routes) given += numbers ? numbers->size() : 0;
    const bool fits = !__builtin_mul_overflow(made.layers, made.slots, &size) &&
                      !__builtin_mul_overflow(size, made_.data->offsets.back(), &taken);
    if (fits && taken / 8 <= given + (1 << 20)) return true;
    report(
        "routes-unplaced",
        "rollout_routed_experts is there of too few of the tokens: it is kept in the file alone");
    return false;
  }

  /// The routes of a sample where they have the form, and `made` of the first one's layers.
  std::optional<foreign::Numbers> placed(Value value, size_t row,
                                         std::optional<format::Experts>& made) const {
    const std::vector<int64_t>* shape = nullptr;
    if (value.kind == Kind::kTensor) shape = &tree_.tensor(value).shape;
    if (value.kind == Kind::kArray) shape = &tree_.array(value).shape;
    const auto tokens =
        static_cast<int64_t>(made_.data->offsets[row + 1] - made_.data->offsets[row]);
    if (shape == nullptr || shape->size() != 3 || shape->front() + 1 != tokens) return std::nullopt;
    const auto layers = static_cast<uint64_t>((*shape)[1]);
    const auto slots = static_cast<uint64_t>((*shape)[2]);
    if (made && (made->layers != layers || made->slots != slots)) return std::nullopt;
    auto numbers = foreign::Numbers::of(tree_, value);
    if (!numbers || !numbers->is_integer()) return std::nullopt;
    const auto is_none = [](auto id) { return id < 0 || id > UINT16_MAX; };
    if (numbers->find(is_none)) return std::nullopt;
    if (!made) made.emplace(format::Experts{layers, slots, {}});
    return numbers;
  }

  /// The experts that this program's own export wrote, where every sample has them.
  void add_experts() {
    format::Experts made;
    uint64_t wanted = 0;
    for (size_t row = 0; row < order_.size(); ++row) {
      const auto shape = own_numbers(order_[row], "experts_shape");
      const auto ids = own_numbers(order_[row], "experts");
      if (!shape || !ids || shape->size() != 2) return;
      made.layers = checked<uint32_t>(row, "experts_shape", shape->integer(0));
      made.slots = checked<uint32_t>(row, "experts_shape", shape->integer(1));
      for (size_t e = 0; e < ids->size(); ++e) {
        made.experts.push_back(checked<uint16_t>(row, "experts", ids->integer(e)));
      }
      if (!__builtin_mul_overflow(made.layers * made.slots, batch_.offsets.back(), &wanted)) {
        continue;
      }
      throw Error(ErrorCode::kCorrupt,
                  "experts_shape says more experts than there can be: layers and slots of a token",
                  sample(row));
    }
    if (!order_.empty() && made.experts.size() == wanted) made_.data->experts = std::move(made);
  }

  /// A number of an own export, of a type that its dataset has. Errors: kCorrupt.
  template <class T>
  T checked(size_t row, std::string_view key, int64_t x) const {
    if (std::in_range<T>(x)) return static_cast<T>(x);
    throw Error(ErrorCode::kCorrupt,
                std::string(key) + " holds " + std::to_string(x) + ", expected 0 to " +
                    std::to_string(std::numeric_limits<T>::max()),
                sample(row));
  }

  std::string sample(size_t row) const {
    return "sample " + std::to_string(made_.data->sample_id[row]);
  }

  void take_raw_rewards() {
    if (order_.empty()) return;
    const Value* metadata = field(0, "metadata");
    const bool record = metadata != nullptr && metadata->kind == Kind::kDict;
    if (!record || tree_.find(*metadata, "raw_reward") == nullptr) {
      made_.raw_rewards = batch_.reward;
    }
  }

  void note_inputs() {
    for (size_t row = 0; row < order_.size(); ++row) {
      const auto says = [&](const char* key) {
        return says_something(tree_, field(order_[row], key));
      };
      const Value* ours = own(order_[row], "other_inputs");
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
