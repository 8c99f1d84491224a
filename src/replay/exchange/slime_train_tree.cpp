#include "src/replay/exchange/slime_train_tree.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>

#include "src/base/error.h"
#include "src/base/found_text.h"
#include "src/base/step_id.h"
#include "src/replay/exchange/cell.h"
#include "src/replay/exchange/dicts.h"
#include "src/replay/exchange/own_datasets.h"
#include "src/replay/exchange/slime_train_columns.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::TorchDType;
using foreign::Tree;
using foreign::Value;
using format::RolloutData;
using format::TokenFloats;
using format::TrainData;

/// Whether slime's tensors, one a sample, hold a column bit by bit.
bool is_whole(const TrainData& data, const std::optional<TokenFloats>& column) {
  if (!column || column->is_wide() || !column->presence.empty()) return false;
  bool any = false;
  for (size_t i = 0; i < data.size(); ++i) {
    const uint64_t response = data.offsets[i] + (*data.prompt_length)[i];
    for (uint64_t t = data.offsets[i]; t < response; ++t) {
      uint32_t bits = 0;
      std::memcpy(&bits, &column->narrow[t], sizeof bits);
      if (bits != 0) return false;
    }
    any = any || response < data.offsets[i + 1];
  }
  return any;
}

bool is_whole(const TrainData& data, std::string_view name) {
  if (name == "loss_mask") return data.loss_mask && data.loss_mask->presence.empty();
  for (const format::TokenColumnField& field : format::kTokenColumnFields) {
    if (field.name == name) return is_whole(data, data.*field.column);
  }
  return false;
}

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// A rollout's training data as the file of slime's rank 0: the samples of all steps in one list,
/// one shard with their places in the rollout, and under `rlreplay` which step each is of.
class TrainTreeBuilder {
 public:
  TrainTreeBuilder(Tree& tree, const format::DumpReader& dump, const OwnTraining& training,
                   const std::optional<std::set<uint64_t>>& selected)
      : tree_(tree), dump_(dump), training_(training), selected_(selected), dicts_(tree) {
    size_t written = 0;
    for (size_t i = 0; i < training.rollout.size(); ++i) {
      const uint64_t id = training.rollout.sample_id[i];
      rollout_rows_[id] = i;
      if (!selected || selected->contains(id)) positions_[id] = written++;
    }
  }

  Value run() {
    const Value root = dicts_.make();
    dicts_.set(root, "format_version", Value::of_int(2));
    dicts_.set(root, "rollout_id", Value::of_int(training_.rollout_id));
    dicts_.set(root, "rank", Value::of_int(0));
    samples_ = list();
    for (const auto& [step, data] : training_.steps) add_step(step, data);
    dicts_.set(root, "samples", samples_);
    const Value shards = list();
    append(shards, shard());
    dicts_.set(root, "dp_shards", shards);
    dicts_.set(root, "raw_reward", raw_rewards());
    const Value own = dicts_.make();
    if (selected_) {
      dicts_.set(own, "selected", Value::of_bool(true));
    } else {
      dicts_.set(own, "steps", own_steps_);
    }
    dicts_.set(root, "rlreplay", own);
    return root;
  }

 private:
  Value list() { return tree_.add_sequence(Kind::kList); }
  void append(Value to, Value item) { tree_.sequence(to).append({&item, 1}, true); }
  size_t rollout_row(uint64_t id) const {
    const auto at = rollout_rows_.find(id);
    if (at != rollout_rows_.end()) return at->second;
    throw Error(ErrorCode::kIncomplete,
                "a step trains on sample " + std::to_string(id) + ", which its rollout has not");
  }

  /// The step's data with tokens and prompt lengths, which lie in the rollout.
  TrainData filled(const TrainData& step) const {
    TrainData out = step;
    const RolloutData& rollout = training_.rollout;
    out.tokens.emplace();
    out.prompt_length.emplace();
    for (const uint64_t id : step.sample_id) {
      const size_t row = rollout_row(id);
      out.prompt_length->push_back((*rollout.prompt_length)[row]);
      out.tokens->insert(out.tokens->end(),
                         rollout.tokens.begin() + static_cast<ptrdiff_t>(rollout.offsets[row]),
                         rollout.tokens.begin() + static_cast<ptrdiff_t>(rollout.offsets[row + 1]));
    }
    if (out.tokens->size() == out.offsets.back()) return out;
    throw Error(ErrorCode::kIncomplete,
                found_text("the samples of a step and of its rollout differ in length: tokens",
                           out.tokens->size(), out.offsets.back()));
  }

  using Trajectory = std::pair<bool, uint64_t>;  // whether it is named, and by which number

  /// The trajectory of a sample by its step, else by its rollout; else it is one of its own.
  Trajectory trajectory(const TrainData& data, size_t i) const {
    const auto& of_step = data.trajectory_id;
    if (of_step && of_step->has(i)) return {true, of_step->values[i]};
    const auto& generated = training_.rollout.trajectory_id;
    const size_t row = rollout_row(data.sample_id[i]);
    if (generated && generated->has(row)) return {true, generated->values[row]};
    return {false, data.sample_id[i]};
  }

  /// The unmasked tokens of each trajectory of a step, of samples that are not selected too.
  std::map<Trajectory, size_t> trajectory_tokens(const TrainData& data) const {
    std::map<Trajectory, size_t> out;
    for (size_t i = 0; i < data.size(); ++i) out[trajectory(data, i)] += unmasked(data, i);
    return out;
  }

  /// What the step's means over samples are divided by, of a selection too.
  static size_t batch_size(const TrainData& data, size_t trajectories) {
    const auto said = data.scalars ? data.scalars->find("trajectories") : std::nullopt;
    return said && *said >= 1 && *said < 0x1p53 ? static_cast<size_t>(*said) : trajectories;
  }

  void add_step(int64_t number, const TrainData& step) {
    const TrainData data = filled(step);
    const auto trajectories = trajectory_tokens(data);
    const Value rows = list();
    int64_t count = 0;
    for (size_t i = 0; i < data.size(); ++i) {
      if (selected_ && !selected_->contains(data.sample_id[i])) continue;
      append(samples_, sample(data, i, trajectories.at(trajectory(data, i))));
      append(rows, Value::of_int(static_cast<int64_t>(indices_.size())));
      indices_.push_back(data.sample_id[i]);
      ++count;
    }
    if (count == 0) return;
    micro_batches_.push_back(rows);
    batch_sizes_.push_back(batch_size(data, trajectories.size()));
    if (!selected_) append(own_steps(), own_step(number, step, data));
  }

  Value sample(const TrainData& data, size_t i, size_t counted) {
    const uint64_t id = data.sample_id[i];
    const size_t row = rollout_row(id);
    const auto length = static_cast<int64_t>(data.offsets[i + 1] - data.offsets[i]);
    const auto prompt = static_cast<int64_t>((*data.prompt_length)[i]);
    const Value made = dicts_.make();
    dicts_.set(made, "data_parallel_rank", Value::of_int(0));
    dicts_.set(made, "sample_index", Value::of_int(static_cast<int64_t>(id)));
    dicts_.set(made, "rollout_position", Value::of_int(static_cast<int64_t>(positions_.at(id))));
    dicts_.set(made, "tokens", tensor(*find_cell(data, "tokens", i), TorchDType::kInt64));
    dicts_.set(made, "total_lengths", Value::of_int(length));
    dicts_.set(made, "response_lengths", Value::of_int(length - prompt));
    dicts_.set(made, "rewards", Value::of_float(reward(data, i, row)));
    dicts_.set(made, "truncated", Value::of_int(truncated(row) ? 1 : 0));
    dicts_.set(made, "rollout_ids",
               Value::of_int(static_cast<int64_t>(trajectory(data, i).second)));
    const auto& sums = data.trajectory_tokens;
    dicts_.set(made, "rollout_mask_sums", count(sums && sums->has(i) ? sums->values[i] : counted));
    for (const SlimeColumn& column : kSlimeColumns) {
      if (!column.written) continue;
      const bool mask = column.ours == "loss_mask";
      if (const auto cell = find_column(data, column.ours, i)) {
        dicts_.set(made, std::string(column.theirs),
                   tensor(*cell, mask ? TorchDType::kInt32 : TorchDType::kFloat32));
      }
    }
    return made;
  }

  /// A policy that was its own past has its log-probabilities from the step.
  std::optional<Cell> find_column(const TrainData& data, std::string_view ours, size_t i) const {
    if (ours == "old_log_probs" && !data.old_log_probs) return find_cell(data, "log_probs", i);
    if (ours != "rollout_log_probs" || data.rollout_log_probs) return find_cell(data, ours, i);
    return find_cell(training_.rollout, "log_probs", rollout_row(data.sample_id[i]));
  }

  Value tensor(const Cell& cell, TorchDType dtype) {
    auto bytes = tensor_bytes(cell, dtype);
    if (!bytes) {
      dtype = TorchDType::kFloat64;
      bytes = tensor_bytes(cell, dtype);
    }
    check(bytes.has_value(), "a column of floats or integers fits a tensor");
    return dicts_.tensor(dtype, std::string(bytes->begin(), bytes->end()));
  }

  double reward(const TrainData& data, size_t i, size_t row) const {
    if (data.rewards && data.rewards->has(i)) return data.rewards->values[i];
    const auto& rewards = training_.rollout.rewards;
    return rewards && rewards->has(row) ? rewards->values[row] : 0;
  }

  bool truncated(size_t row) const {
    const auto& finish = training_.rollout.finish;
    return finish && (*finish)[row] == format::Finish::kLength;
  }

  static size_t unmasked(const TrainData& data, size_t i) {
    const uint64_t begin = data.offsets[i] + (*data.prompt_length)[i], end = data.offsets[i + 1];
    if (!data.loss_mask || !data.loss_mask->has(i)) return end - begin;
    const auto& mask = data.loss_mask->values;
    return static_cast<size_t>(std::count(mask.begin() + static_cast<ptrdiff_t>(begin),
                                          mask.begin() + static_cast<ptrdiff_t>(end), 1));
  }

  Value count(uint64_t tokens) {
    return dicts_.tensor(TorchDType::kFloat32, bytes_of(static_cast<float>(tokens)),
                         /*scalar=*/true);
  }

  Value shard() {
    const Value made = dicts_.make();
    dicts_.set(made, "rank", Value::of_int(0));
    dicts_.set(made, "data_parallel_rank", Value::of_int(0));
    dicts_.set(made, "sample_indices", dicts_.integers(indices_));
    std::vector<size_t> partition;
    for (const uint64_t id : indices_) partition.push_back(positions_.at(id));
    dicts_.set(made, "partition", dicts_.integers(partition));
    dicts_.set(made, "micro_batch_indices", tree_.add_sequence(Kind::kList, micro_batches_));
    dicts_.set(made, "num_microbatches", dicts_.integers(std::vector(micro_batches_.size(), 1)));
    dicts_.set(made, "global_batch_sizes", dicts_.integers(batch_sizes_));
    return made;
  }

  Value raw_rewards() {
    const Value made = list();
    const auto& rewards = training_.rollout.rewards;
    for (size_t i = 0; i < training_.rollout.size(); ++i) {
      if (!positions_.contains(training_.rollout.sample_id[i])) continue;
      const bool has = rewards && rewards->has(i);
      append(made, has ? Value::of_float(rewards->values[i]) : Value());
    }
    return made;
  }

  Value own_steps() {
    if (own_steps_.kind == Kind::kNone) own_steps_ = list();
    return own_steps_;
  }

  Value own_step(int64_t number, const TrainData& step, const TrainData& data) {
    const std::string group = StepId{training_.rollout_id, number}.group();
    std::set<std::string> fields = {"sample_id", "offsets"};
    for (const SlimeColumn& column : kSlimeColumns) {
      if (column.written && is_whole(data, column.ours)) fields.insert(std::string(column.ours));
    }
    if (data.rewards && data.rewards->presence.empty()) fields.insert("rewards");
    const Value names = list();
    for (const std::string& name : fields) append(names, dicts_.text(name));
    const Value made = dicts_.make();
    dicts_.set(made, "step", Value::of_int(number));
    dicts_.set(made, "order", dicts_.integers(step.sample_id));
    dicts_.set(made, "fields", names);
    const auto wanted = [&](const std::string& name) { return !fields.contains(name); };
    dicts_.set(made, "datasets", add_own_datasets(tree_, datasets_of(group, step, wanted), group));
    return made;
  }

  /// What a step holds beside the fields of slime's samples; of several ranks as one would.
  std::vector<format::Dataset> datasets_of(const std::string& group, const TrainData& step,
                                           const WantedName& wanted) const {
    const auto units = dump_.find("train", group);
    if (units.size() == 1) return read_datasets(dump_, dump_.open_unit(*units[0]), group, wanted);
    std::vector<format::Dataset> out =
        format::to_datasets(std::make_shared<const TrainData>(step), group);
    std::erase_if(out, [&](const format::Dataset& dataset) {
      return !wanted(dataset.path.substr(group.size() + 1));
    });
    const auto of_events = [](const std::string& name) { return name.starts_with("events/"); };
    const format::UnitRecord* seen = nullptr;
    for (const format::UnitRecord* record : units) {
      auto events = read_datasets(dump_, dump_.open_unit(*record), group, of_events);
      if (events.empty()) continue;
      if (seen != nullptr) {
        throw Error(ErrorCode::kUnsupported,
                    "step " + group + " has events of several ranks: export it as jsonl",
                    record->path);
      }
      seen = record;
      std::ranges::move(events, std::back_inserter(out));
    }
    return out;
  }

  Tree& tree_;
  const format::DumpReader& dump_;
  const OwnTraining& training_;
  const std::optional<std::set<uint64_t>>& selected_;
  Dicts dicts_;
  std::map<uint64_t, size_t> rollout_rows_;
  std::map<uint64_t, size_t> positions_;  // of samples that are written, in the rollout's file
  Value samples_, own_steps_;
  std::vector<uint64_t> indices_;     // samples in the order of training
  std::vector<Value> micro_batches_;  // rows of `indices_`, one a step
  std::vector<size_t> batch_sizes_;
};

}  // namespace

Value slime_train(Tree& tree, const format::DumpReader& dump, const OwnTraining& training,
                  const std::optional<std::set<uint64_t>>& selected) {
  return TrainTreeBuilder(tree, dump, training, selected).run();
}

}  // namespace rlreplay::replay
