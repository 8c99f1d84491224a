#include "src/replay/inspect/recorded_step.h"

#include <algorithm>
#include <map>

#include "src/base/error.h"

namespace rlreplay::replay {
namespace {

using format::RolloutData;
using format::TokenFloats;
using format::TrainData;

constexpr TokenColumn RecordedStep::*kColumns[] = {
    &RecordedStep::log_probs,     &RecordedStep::old_log_probs,
    &RecordedStep::ref_log_probs, &RecordedStep::rollout_log_probs,
    &RecordedStep::entropy,       &RecordedStep::advantages,
    &RecordedStep::returns,       &RecordedStep::kl,
    &RecordedStep::policy_kl,     &RecordedStep::policy_loss};
constexpr std::optional<TokenFloats> TrainData::*kRecorded[] = {
    &TrainData::log_probs,     &TrainData::old_log_probs,
    &TrainData::ref_log_probs, &TrainData::rollout_log_probs,
    &TrainData::entropy,       &TrainData::advantages,
    &TrainData::returns,       &TrainData::kl,
    &TrainData::policy_kl,     &TrainData::policy_loss};

/// Tokens [begin, end) of a column.
std::vector<float> floats(const TokenFloats& column, uint64_t begin, uint64_t end) {
  std::vector<float> out;
  for (uint64_t t = begin; t < end; ++t) out.push_back(static_cast<float>(column.at(t)));
  return out;
}

std::vector<uint8_t> mask_of(const std::optional<format::Column<uint8_t>>& column, size_t row,
                             uint64_t begin, uint64_t end) {
  if (!column || !column->has(row)) return std::vector<uint8_t>(end - begin, 1);
  return {column->values.begin() + static_cast<ptrdiff_t>(begin),
          column->values.begin() + static_cast<ptrdiff_t>(end)};
}

/// What the rollout says of its samples.
std::vector<engine::Sample> rollout_samples_of(const RolloutData& data) {
  std::vector<engine::Sample> out(data.size());
  for (size_t i = 0; i < out.size(); ++i) {
    engine::Sample& s = out[i];
    const uint64_t begin = data.offsets[i], end = data.offsets[i + 1];
    s.id = data.sample_id[i];
    s.prompt_length = data.prompt_length ? (*data.prompt_length)[i] : 0;
    s.tokens.assign(data.tokens.begin() + static_cast<ptrdiff_t>(begin),
                    data.tokens.begin() + static_cast<ptrdiff_t>(end));
    if (data.group_id && data.group_id->has(i)) s.group = data.group_id->values[i];
    if (data.rewards && data.rewards->has(i)) s.reward = data.rewards->values[i];
    const uint64_t response = begin + static_cast<uint64_t>(s.prompt_length);
    s.loss_mask = mask_of(data.loss_mask, i, response, end);
    if (data.log_probs && data.log_probs->has(i)) {
      s.rollout_log_probs = floats(*data.log_probs, response, end);
    }
  }
  return out;
}

template <class T>
bool all_have(const std::optional<format::Column<T>>& column) {
  return column && std::ranges::all_of(column->presence, [](uint8_t p) { return p != 0; });
}

using ById = std::map<uint64_t, const engine::Sample*>;

/// One row of a step, completed by the rollout.
engine::Sample sample_of(const TrainData& data, size_t row, const ById& rollout) {
  const uint64_t begin = data.offsets[row], end = data.offsets[row + 1];
  const auto known = rollout.find(data.sample_id[row]);
  engine::Sample out;
  if (known != rollout.end()) out = *known->second;
  out.id = data.sample_id[row];
  if (data.tokens && data.prompt_length) {
    out.tokens.assign(data.tokens->begin() + static_cast<ptrdiff_t>(begin),
                      data.tokens->begin() + static_cast<ptrdiff_t>(end));
    out.prompt_length = (*data.prompt_length)[row];
  }
  if (out.tokens.empty() || out.tokens.size() != end - begin) {
    throw Error(ErrorCode::kIncomplete, "the step trains on sample " + std::to_string(out.id) +
                                            ", whose tokens the dump does not hold");
  }
  const uint64_t response = begin + static_cast<uint64_t>(out.prompt_length);
  if (data.loss_mask) out.loss_mask = mask_of(data.loss_mask, row, response, end);
  if (out.loss_mask.size() != end - response) out.loss_mask.assign(end - response, 1);
  return out;
}

void append_rows(const TrainData& data, const ById& rollout, RecordedStep& batch) {
  const size_t before = batch.samples.size();
  for (size_t row = 0; row < data.size(); ++row) {
    batch.samples.push_back(sample_of(data, row, rollout));
  }
  for (size_t c = 0; c < std::size(kColumns); ++c) {
    const std::optional<TokenFloats>& from = data.*kRecorded[c];
    TokenColumn& to = batch.*kColumns[c];
    if (!from && !to) continue;
    if (!to) to.emplace(before);
    to->resize(batch.samples.size());
    for (size_t row = 0; from && row < data.size(); ++row) {
      if (!from->has(row)) continue;
      const auto prompt = static_cast<uint64_t>(batch.samples[before + row].prompt_length);
      (*to)[before + row] = floats(*from, data.offsets[row] + prompt, data.offsets[row + 1]);
    }
  }
  if (all_have(data.rewards) && (before == 0 || batch.shaped)) {
    if (!batch.shaped) batch.shaped.emplace();
    batch.shaped->insert(batch.shaped->end(), data.rewards->values.begin(),
                         data.rewards->values.end());
  } else {
    batch.shaped.reset();
  }
  if (data.scalars && !batch.scalars) batch.scalars = data.scalars;
}

/// The sampler's log-probabilities, from the trainer's copy where it has one.
void join_rollout_log_probs(RecordedStep& batch) {
  bool any = false;
  std::vector<std::vector<float>> joined;
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    engine::Sample& s = batch.samples[i];
    const bool own = batch.rollout_log_probs && !(*batch.rollout_log_probs)[i].empty();
    if (own) s.rollout_log_probs = (*batch.rollout_log_probs)[i];
    if (static_cast<int64_t>(s.rollout_log_probs.size()) != s.response_length()) {
      s.rollout_log_probs.clear();
    }
    any = any || !s.rollout_log_probs.empty();
    joined.push_back(s.rollout_log_probs);
  }
  batch.rollout_log_probs.reset();
  if (any) batch.rollout_log_probs = std::move(joined);
}

}  // namespace

bool is_whole(const TokenColumn& column, std::span<const engine::Sample> samples) {
  if (!column) return false;
  for (size_t i = 0; i < samples.size(); ++i) {
    if ((*column)[i].size() != samples[i].loss_mask.size()) return false;
  }
  return true;
}

std::optional<double> RecordedStep::scalar(std::string_view name) const {
  return scalars ? scalars->find(name) : std::nullopt;
}

std::vector<int64_t> trained_rollouts(const RecordedRun& run) {
  std::vector<int64_t> out;
  for (const StepId& step : run.steps()) {
    if (out.empty() || out.back() != step.rollout) out.push_back(step.rollout);
  }
  return out;
}

RecordedRollout read_recorded_rollout(const RecordedRun& run, int64_t rollout) {
  RecordedRollout out;
  out.id = rollout;
  out.data = format::find_rollout_data(run.dump(), rollout);
  if (out.data) {
    out.samples = rollout_samples_of(*out.data);
    out.has_rewards = all_have(out.data->rewards);
    out.has_groups = all_have(out.data->group_id);
  }
  ById by_id;
  for (const engine::Sample& s : out.samples) by_id.emplace(s.id, &s);
  for (const StepId& step : run.steps()) {
    if (step.rollout != rollout) continue;
    RecordedStep batch;
    batch.id = step;
    for (const format::UnitRecord* record : run.dump().find("train", step.group())) {
      const format::UnitReader unit = run.dump().open_unit(*record);
      if (unit.find(step.group() + "/sample_id") == nullptr) continue;  // events alone
      append_rows(format::read_train_data(run.dump(), unit, step.group()), by_id, batch);
    }
    join_rollout_log_probs(batch);
    out.steps.push_back(std::move(batch));
  }
  return out;
}

}  // namespace rlreplay::replay
