#include "src/replay/sample_data.h"

#include <algorithm>

#include "src/base/error.h"

namespace rlreplay::replay {
namespace {

using format::Column;
using format::Texts;
using format::TokenFloats;

/// Values of response tokens among those of all tokens, zeros for the prompts.
template <class T>
void add_response(std::vector<T>& to, const engine::Sample& sample, std::span<const T> values) {
  to.insert(to.end(), static_cast<size_t>(sample.prompt_length), T{});
  to.insert(to.end(), values.begin(), values.end());
}

template <class Get>
std::optional<TokenFloats> token_floats(std::span<const engine::Sample> samples, const Get& get) {
  TokenFloats out;
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::vector<float>& values = get(i);
    if (static_cast<int64_t>(values.size()) != samples[i].response_length()) return std::nullopt;
    add_response<float>(out.narrow, samples[i], values);
  }
  return out;
}

template <class Get>
Texts texts(const RolloutBatch& batch, const Get& get) {
  Texts out;
  for (const RolloutBatch::Text& text : batch.texts) out.add(get(text));
  return out;
}

Texts labels(const RolloutBatch& batch) {
  Texts out;
  for (const RolloutBatch::Text& text : batch.texts) {
    out.presence.push_back(text.label.has_value());
    out.add(text.label.value_or(""));
  }
  return out;
}

format::NamedColumns scalars(const StepOutcome& outcome) {
  const engine::StepResult& r = outcome.result;
  return {{"loss", "pg_loss", "entropy", "kl", "clip_fraction", "grad_norm", "clip_scale", "lr"},
          {r.losses.total, r.losses.policy, r.losses.entropy, r.losses.kl, r.losses.clip_fraction,
           r.grad_norm, static_cast<double>(r.clip_scale), outcome.lr},
          {}};
}

template <class T>
const T& need(const std::optional<T>& column, const char* name) {
  if (column) return *column;
  throw Error(ErrorCode::kIncomplete,
              std::string("the rollout has no ") + name + ": it cannot be replayed");
}

}  // namespace

std::shared_ptr<const format::RolloutData> rollout_data(const RolloutBatch& batch) {
  format::RolloutData out;
  Column<uint64_t> groups;
  Column<double> rewards;
  Column<uint8_t> masks;
  std::vector<uint32_t> prompts;
  for (const engine::Sample& s : batch.samples) {
    out.sample_id.push_back(s.id);
    out.tokens.insert(out.tokens.end(), s.tokens.begin(), s.tokens.end());
    out.offsets.push_back(out.tokens.size());
    groups.values.push_back(s.group);
    rewards.values.push_back(s.reward);
    prompts.push_back(static_cast<uint32_t>(s.prompt_length));
    add_response<uint8_t>(masks.values, s, s.loss_mask);
  }
  out.group_id = std::move(groups);
  out.rewards = std::move(rewards);
  out.loss_mask = std::move(masks);
  out.prompt_length = std::move(prompts);
  out.log_probs = token_floats(batch.samples, [&](size_t i) -> const std::vector<float>& {
    return batch.samples[i].rollout_log_probs;
  });
  out.prompt_text = texts(batch, [](const auto& text) { return text.prompt; });
  out.response_text = texts(batch, [](const auto& text) { return text.response; });
  out.label_text = labels(batch);
  return std::make_shared<const format::RolloutData>(std::move(out));
}

std::shared_ptr<const format::TrainData> train_data(
    const StepOutcome& outcome, std::span<const engine::Sample> samples,
    std::span<const engine::SampleTargets> targets) {
  format::TrainData out;
  Column<uint8_t> masks;
  for (const engine::Sample& s : samples) {
    out.sample_id.push_back(s.id);
    out.offsets.push_back(out.offsets.back() + s.tokens.size());
    add_response<uint8_t>(masks.values, s, s.loss_mask);
  }
  out.loss_mask = std::move(masks);
  const auto column = [&](const auto& get) { return token_floats(samples, get); };
  using Floats = const std::vector<float>&;
  out.log_probs = column([&](size_t i) -> Floats { return outcome.result.scores[i].log_probs; });
  out.entropy = column([&](size_t i) -> Floats { return outcome.result.scores[i].entropy; });
  out.old_log_probs = column([&](size_t i) -> Floats { return targets[i].old_log_probs; });
  out.ref_log_probs = column([&](size_t i) -> Floats { return targets[i].ref_log_probs; });
  out.advantages = column([&](size_t i) -> Floats { return targets[i].advantages; });
  out.scalars = scalars(outcome);
  return std::make_shared<const format::TrainData>(std::move(out));
}

std::vector<engine::Sample> read_samples(const format::RolloutData& data) {
  const auto& prompts = need(data.prompt_length, "prompt lengths");
  const auto& groups = need(data.group_id, "groups");
  const auto& rewards = need(data.rewards, "rewards");
  std::vector<engine::Sample> out(data.size());
  for (size_t i = 0; i < out.size(); ++i) {
    engine::Sample& s = out[i];
    const auto begin = static_cast<int64_t>(data.offsets[i]);
    const auto end = static_cast<int64_t>(data.offsets[i + 1]);
    const int64_t response = begin + prompts[i];
    if (prompts[i] == 0 || response > end) {
      throw Error(ErrorCode::kCorrupt, "sample " + std::to_string(data.sample_id[i]) +
                                           " has no prompt, or one longer than itself");
    }
    s.id = data.sample_id[i];
    s.group = groups.values[i];
    s.tokens.assign(data.tokens.begin() + begin, data.tokens.begin() + end);
    s.prompt_length = prompts[i];
    s.reward = rewards.values[i];
    s.loss_mask.assign(static_cast<size_t>(end - response), 1);
    if (data.loss_mask && data.loss_mask->has(i)) {
      s.loss_mask.assign(data.loss_mask->values.begin() + response,
                         data.loss_mask->values.begin() + end);
    }
    if (!data.log_probs || !data.log_probs->has(i)) continue;
    for (int64_t t = response; t < end; ++t) {
      s.rollout_log_probs.push_back(static_cast<float>(data.log_probs->at(static_cast<size_t>(t))));
    }
  }
  return out;
}

std::vector<std::vector<float>> response_floats(const format::TrainData& data,
                                                const TokenFloats& column,
                                                std::span<const engine::Sample> samples) {
  std::vector<std::vector<float>> out(samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto at = std::find(data.sample_id.begin(), data.sample_id.end(), samples[i].id);
    if (at == data.sample_id.end()) {
      throw Error(ErrorCode::kIncomplete,
                  "the step's record lacks sample " + std::to_string(samples[i].id));
    }
    const auto row = static_cast<size_t>(at - data.sample_id.begin());
    const size_t begin = data.offsets[row] + static_cast<size_t>(samples[i].prompt_length);
    for (size_t t = begin; t < data.offsets[row + 1]; ++t) {
      out[i].push_back(static_cast<float>(column.at(t)));
    }
  }
  return out;
}

}  // namespace rlreplay::replay
