#include "format/foreign/rollout_file.h"

#include <string>

#include "format/foreign/dump_check.h"
#include "format/foreign/numbers.h"
#include "format/foreign/text.h"
#include "format/foreign/tree_difference.h"
#include "src/base/found_text.h"
#include "src/base/number_text.h"
#include "src/base/words.h"

namespace rlreplay::foreign {
namespace {

/// Reads samples one by one into a batch.
class Reader {
 public:
  Reader(const Tree& tree, std::string_view reward_key) : tree_(tree), reward_key_(reward_key) {}

  RolloutFile read(Value root) {
    const Value* id = tree_.find(root, "rollout_id");
    if (id->kind != Kind::kInt) {
      throw Error(ErrorCode::kCorrupt, unlike_text(tree_, "rollout_id", id, "not an integer"));
    }
    if (id->integer < 0) throw Error(ErrorCode::kCorrupt, negative_rollout(id->integer));
    batch_.rollout_id = id->integer;
    const Sequence& samples = tree_.sequence(*tree_.find(root, "samples"));
    for (size_t i = 0; i < samples.size(); ++i) {
      sample_ = samples[i];
      where_ = "row " + std::to_string(i);
      read_sample();
    }
    return std::move(batch_);
  }

 private:
  [[noreturn]] void corrupt(const std::string& message) const {
    throw Error(ErrorCode::kCorrupt, message, where_);
  }

  const Value* field(std::string_view key) const {
    const Value* value = tree_.find(sample_, key);
    return value == nullptr || value->kind == Kind::kNone ? nullptr : value;
  }

  std::optional<Numbers> numbers(std::string_view key) const {
    const Value* value = field(key);
    if (value == nullptr) return std::nullopt;
    std::optional<Numbers> found = Numbers::of(tree_, *value);
    if (!found) corrupt(std::string(key) + " holds something else than numbers");
    return found;
  }

  void read_sample() {
    const std::optional<Numbers> tokens = numbers("tokens");
    if (!tokens || !tokens->is_integer()) corrupt("tokens are missing or no integers");
    const std::optional<size_t> bad = tokens->find([](auto value) {
      const auto id = static_cast<int64_t>(value);
      return id < 0 || id > INT32_MAX;
    });
    if (bad) corrupt("token " + std::to_string(tokens->integer(*bad)) + " is no token id");
    batch_.tokens.push_back(*field("tokens"));
    batch_.offsets.push_back(batch_.offsets.back() + tokens->size());
    const std::optional<int64_t> length = integer("response_length");
    const auto total = static_cast<int64_t>(tokens->size());
    if (!length || *length < 0 || *length > total) {
      corrupt(found_text("response_length fits no response",
                         length ? std::to_string(*length) : "none",
                         "0 to " + std::to_string(total)));
    }
    batch_.response_lengths.push_back(*length);
    read_mask(static_cast<size_t>(*length));
    read_log_probs(static_cast<size_t>(*length));
    batch_.index.push_back(integer("index"));
    batch_.group_index.push_back(integer("group_index"));
    batch_.trajectory.push_back(integer("rollout_id"));
    read_nucleus(static_cast<size_t>(*length));
    batch_.reward.push_back(reward());
    batch_.status.push_back(status());
    read_versions();
  }

  std::optional<int64_t> integer(std::string_view key) const {
    const Value* value = field(key);
    if (value == nullptr) return std::nullopt;
    if (value->kind != Kind::kInt) corrupt(unlike_text(tree_, key, value, "not an integer"));
    return value->integer;
  }

  void expect_length(const std::string& key, size_t length, size_t response) const {
    if (length == response) return;
    corrupt(key + " has " + std::to_string(length) + " values, and the response " +
            std::to_string(response) + " tokens");
  }

  void read_mask(size_t length) {
    const std::optional<Numbers> mask = numbers("loss_mask");
    if (mask) expect_length("loss_mask", mask->size(), length);
    if (!mask) return batch_.loss_mask.push_back(Value());
    if (const auto odd = mask->find([](auto m) { return m != 0 && m != 1; })) {
      corrupt(found_text("loss_mask is neither 0 nor 1",
                         shortest(mask->real(*odd)) + " at place " + std::to_string(*odd),
                         "0 or 1"));
    }
    batch_.loss_mask.push_back(*field("loss_mask"));
  }

  void read_log_probs(size_t length) {
    const std::optional<Numbers> column = numbers("rollout_log_probs");
    if (column) expect_length("rollout_log_probs", column->size(), length);
    batch_.log_probs.push_back(column ? *field("rollout_log_probs") : Value());
  }

  void read_nucleus(size_t length) {
    const std::optional<Numbers> ids = numbers("rollout_top_p_token_ids");
    const std::optional<Numbers> offsets = numbers("rollout_top_p_token_offsets");
    if (ids.has_value() != offsets.has_value()) {
      corrupt("rollout_top_p_token_ids and rollout_top_p_token_offsets are not both there");
    }
    batch_.nucleus.push_back(ids ? *field("rollout_top_p_token_ids") : Value());
    batch_.nucleus_offsets.push_back(ids ? *field("rollout_top_p_token_offsets") : Value());
    if (!ids) return;
    const bool integers = (ids->is_integer() || ids->size() == 0) && offsets->is_integer();
    bool sound = integers && offsets->size() == length + 1 && offsets->integer(0) == 0 &&
                 offsets->integer(length) == static_cast<int64_t>(ids->size());
    for (size_t t = 0; sound && t < length; ++t) {
      sound = offsets->integer(t) <= offsets->integer(t + 1);
    }
    if (!sound) {
      corrupt(found_text(
          "rollout_top_p_token_offsets do not cut the ids into the response's tokens",
          counted(offsets->size(), "offset"),
          std::to_string(length + 1) + " that ascend from 0 to " + std::to_string(ids->size())));
    }
    const auto bad =
        ids->find([](auto id) { return id < 0 || static_cast<int64_t>(id) > INT32_MAX; });
    if (bad) {
      corrupt("rollout_top_p_token_ids holds something that is no token id: " +
              std::to_string(ids->integer(*bad)) + " at place " + std::to_string(*bad));
    }
  }

  std::optional<double> reward() const {
    const Value* value = field("reward");
    if (value != nullptr && value->kind == Kind::kDict) {
      value = reward_key_.empty() ? nullptr : tree_.find(*value, reward_key_);
    }
    if (value == nullptr) return std::nullopt;
    if (value->kind == Kind::kFloat) return value->real;
    if (value->kind == Kind::kInt) return static_cast<double>(value->integer);
    if (value->kind == Kind::kBool) return value->boolean ? 1 : 0;
    return std::nullopt;
  }

  std::string_view status() const {
    const Value* value = field("status");
    if (value == nullptr) return {};
    const Value name = value->kind == Kind::kEnum ? tree_.sequence(*value)[1] : *value;
    if (name.kind != Kind::kText) corrupt("the status is no text");
    return tree_.text(name);
  }

  void read_versions() {
    const Value* versions = field("weight_versions");
    if (versions != nullptr && versions->kind == Kind::kList) {
      const Sequence& list = tree_.sequence(*versions);
      for (size_t i = 0; i < list.size(); ++i) {
        if (list[i].kind != Kind::kText) corrupt("a weight version is no text");
        batch_.weight_versions.push_back(tree_.text(list[i]));
      }
    }
    batch_.version_offsets.push_back(batch_.weight_versions.size());
  }

  const Tree& tree_;
  std::string_view reward_key_;
  RolloutFile batch_;
  Value sample_;
  std::string where_;
};

}  // namespace

RolloutFile read_rollout(const Tree& tree, Value root, std::string_view reward_key) {
  if (dump_kind(tree, root) != DumpKind::kRollout) {
    throw Error(ErrorCode::kUnsupported, "this is no rollout dump");
  }
  return Reader(tree, reward_key).read(root);
}

}  // namespace rlreplay::foreign
