#include "src/replay/exchange/slime_tree.h"

#include "src/replay/exchange/cell.h"
#include "src/replay/exchange/dicts.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::Tree;
using foreign::Value;
using format::Finish;
using format::RolloutData;

const char* status_of(Finish finish) {
  switch (finish) {
    case Finish::kStop:
      return "completed";
    case Finish::kLength:
      return "truncated";
    case Finish::kAborted:
      return "aborted";
    case Finish::kFailed:
      return "failed";
    default:
      return "pending";
  }
}

/// Makes a dict a sample, with the same keys for each and None where the data has no value; only
/// what top-p kept has keys where it was recorded alone.
class RolloutTreeBuilder {
 public:
  RolloutTreeBuilder(Tree& tree, const RolloutData& data, const std::set<uint64_t>& with_inputs)
      : tree_(tree), data_(data), with_inputs_(with_inputs), dicts_(tree) {}

  Value run(int64_t rollout_id) {
    const Value root = dicts_.make();
    const Value samples = tree_.add_sequence(Kind::kList);
    dicts_.set(root, "rollout_id", Value::of_int(rollout_id));
    dicts_.set(root, "samples", samples);
    for (size_t s = 0; s < data_.size(); ++s) {
      const Value made = sample(s);
      tree_.sequence(samples).append({&made, 1}, true);
    }
    return root;
  }

 private:
  Value cell(std::string_view dataset, size_t s) {
    const std::optional<Cell> found = find_cell(data_, dataset, s);
    return found ? add_cell(tree_, *found) : Value();
  }

  Value sample(size_t s) {
    const Value made = dicts_.make();
    const bool group = data_.group_id && data_.group_id->has(s);
    dicts_.set(made, "group_index",
               group ? Value::of_int(static_cast<int64_t>(data_.group_id->values[s])) : Value());
    dicts_.set(made, "index", Value::of_int(static_cast<int64_t>(data_.sample_id[s])));
    const bool trajectory = data_.trajectory_id && data_.trajectory_id->has(s);
    dicts_.set(
        made, "rollout_id",
        trajectory ? Value::of_int(static_cast<int64_t>(data_.trajectory_id->values[s])) : Value());
    dicts_.set(made, "prompt", cell("prompt_text", s));
    dicts_.set(made, "tokens", cell("tokens", s));
    const uint64_t total = data_.offsets[s + 1] - data_.offsets[s];
    dicts_.set(made, "response", cell("response_text", s));
    dicts_.set(made, "response_length", Value::of_int(static_cast<int64_t>(total - prompt(s))));
    dicts_.set(made, "label", cell("label_text", s));
    const bool reward = data_.rewards && data_.rewards->has(s);
    dicts_.set(made, "reward", reward ? Value::of_float(data_.rewards->values[s]) : Value());
    dicts_.set(made, "loss_mask", cell("loss_mask", s));
    dicts_.set(made, "weight_versions", versions(s));
    dicts_.set(made, "rollout_log_probs", cell("log_probs", s));
    add_nucleus(made, s);
    const bool removed = data_.removed && data_.removed->has(s) && data_.removed->values[s] != 0;
    dicts_.set(made, "remove_sample", Value::of_bool(removed));
    // slime reads no sample without a status.
    const Finish finish = data_.finish ? (*data_.finish)[s] : Finish::kStop;
    dicts_.set(made, "status", dicts_.text(status_of(finish)));
    dicts_.set(made, "metadata", metadata(s));
    tree_.fit(made);
    return made;
  }

  uint64_t prompt(size_t s) const { return data_.prompt_length ? (*data_.prompt_length)[s] : 0; }

  /// What top-p kept, as slime cuts it: offsets of the response's tokens.
  void add_nucleus(Value sample, size_t s) {
    if (!data_.nucleus || !data_.nucleus->has(s)) return;
    const format::TokenSets& sets = *data_.nucleus;
    const auto ids =
        std::span(sets.ids).subspan(sets.offsets[s], sets.offsets[s + 1] - sets.offsets[s]);
    std::vector<int32_t> offsets = {0};
    for (uint64_t t = data_.offsets[s] + prompt(s); t < data_.offsets[s + 1]; ++t) {
      offsets.push_back(offsets.back() + static_cast<int32_t>(sets.sizes[t]));
    }
    dicts_.set(sample, "rollout_top_p_token_ids", add_cell(tree_, ids));
    dicts_.set(sample, "rollout_top_p_token_offsets",
               add_cell(tree_, std::span<const int32_t>(offsets)));
  }

  Value versions(size_t s) {
    const Value list = tree_.add_sequence(Kind::kList);
    for (uint64_t v = 0; data_.versions && v < count(s); ++v) {
      const int64_t version = data_.versions->versions[data_.versions->offsets[s] + v];
      const Value text = dicts_.text(std::to_string(version));
      tree_.sequence(list).append({&text, 1}, true);
    }
    return list;
  }

  uint64_t count(size_t s) const {
    return data_.versions->offsets[s + 1] - data_.versions->offsets[s];
  }

  Value metadata(size_t s) {
    const Value own = dicts_.make();
    if (data_.versions && data_.versions->starts) {
      const Value list = tree_.add_sequence(Kind::kList);
      for (uint64_t v = 0; v < count(s); ++v) {
        const Value start =
            Value::of_int((*data_.versions->starts)[data_.versions->offsets[s] + v]);
        tree_.sequence(list).append({&start, 1}, true);
      }
      dicts_.set(own, "version_starts", list);
    }
    if (data_.reward_components && format::is_present(data_.reward_components->presence, s)) {
      const auto& [names, values, presence] = *data_.reward_components;
      const Value components = dicts_.make();
      for (size_t k = 0; k < names.size(); ++k) {
        dicts_.set(components, names[k], Value::of_float(values[s * names.size() + k]));
      }
      dicts_.set(own, "reward_components", components);
    }
    if (data_.experts) {
      const uint64_t size = data_.experts->layers * data_.experts->slots;
      const std::vector<int32_t> ids(
          data_.experts->experts.begin() + static_cast<ptrdiff_t>(data_.offsets[s] * size),
          data_.experts->experts.begin() + static_cast<ptrdiff_t>(data_.offsets[s + 1] * size));
      const std::vector<int32_t> shape = {static_cast<int32_t>(data_.experts->layers),
                                          static_cast<int32_t>(data_.experts->slots)};
      dicts_.set(own, "experts_shape", add_cell(tree_, std::span<const int32_t>(shape)));
      dicts_.set(own, "experts", add_cell(tree_, std::span<const int32_t>(ids)));
    }
    if (with_inputs_.contains(data_.sample_id[s])) {
      dicts_.set(own, "other_inputs", Value::of_bool(true));
    }
    const Value made = dicts_.make();
    if (tree_.sequence(own).size() > 0) dicts_.set(made, "rlreplay", own);
    return made;
  }

  Tree& tree_;
  const RolloutData& data_;
  const std::set<uint64_t>& with_inputs_;
  Dicts dicts_;
};

}  // namespace

Value slime_rollout(Tree& tree, const RolloutData& data, int64_t rollout_id,
                    const std::set<uint64_t>& with_inputs) {
  return RolloutTreeBuilder(tree, data, with_inputs).run(rollout_id);
}

}  // namespace rlreplay::replay
