#include "src/replay/capture/sample_data.h"

#include <algorithm>

#include "src/base/error.h"

namespace rlreplay::replay {
namespace {

using format::Column;
using format::Finish;
using format::Texts;
using format::TokenFloats;

/// Values of response tokens among those of all tokens, zeros for the prompts.
template <class T>
void add_response(std::vector<T>& to, const Sample& sample, std::span<const T> values) {
  to.insert(to.end(), static_cast<size_t>(sample.prompt_length), T{});
  to.insert(to.end(), values.begin(), values.end());
}

/// Nothing where a sample lacks its values: a capture has a column of all samples or of none.
template <class Get>
std::optional<TokenFloats> token_floats(std::span<const Sample> samples, const Get& get) {
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

std::vector<Finish> finishes(const RolloutBatch& batch) {
  std::vector<Finish> out;
  for (const bool stopped : batch.stopped) out.push_back(stopped ? Finish::kStop : Finish::kLength);
  return out;
}

/// One version a sample, from its response on.
format::Versions versions(const RolloutBatch& batch) {
  format::Versions out;
  out.starts.emplace();
  for (const Sample& s : batch.samples) {
    out.versions.push_back(batch.version);
    out.starts->push_back(static_cast<uint32_t>(s.prompt_length));
    out.offsets.push_back(out.versions.size());
  }
  return out;
}

}  // namespace

format::NamedColumns step_scalars(const StepOutcome& outcome) {
  const engine::StepResult& r = outcome.result;
  return {{"loss", "pg_loss", "entropy", "kl", "clip_fraction", "grad_norm", "clip_scale", "lr"},
          {r.losses.total, r.losses.policy, r.losses.entropy, r.losses.kl, r.losses.clip_fraction,
           r.grad_norm, static_cast<double>(r.clip_scale), outcome.lr},
          {}};
}

std::shared_ptr<const format::RolloutData> rollout_data(const RolloutBatch& batch) {
  format::RolloutData out;
  Column<uint64_t> groups;
  Column<double> rewards;
  Column<uint8_t> masks;
  std::vector<uint32_t> prompts;
  for (const Sample& s : batch.samples) {
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
  out.finish = finishes(batch);
  out.versions = versions(batch);
  out.log_probs = token_floats(batch.samples, [&](size_t i) -> const std::vector<float>& {
    return batch.samples[i].rollout_log_probs;
  });
  out.prompt_text = texts(batch, [](const auto& text) { return text.prompt; });
  out.response_text = texts(batch, [](const auto& text) { return text.response; });
  out.label_text = labels(batch);
  return std::make_shared<const format::RolloutData>(std::move(out));
}

std::shared_ptr<const format::TrainData> train_data(const StepOutcome& outcome,
                                                    std::span<const Sample> samples,
                                                    std::span<const SampleTargets> targets) {
  format::TrainData out;
  Column<uint8_t> masks;
  for (const Sample& s : samples) {
    out.sample_id.push_back(s.id);
    out.offsets.push_back(out.offsets.back() + s.tokens.size());
    add_response<uint8_t>(masks.values, s, s.loss_mask);
  }
  out.loss_mask = std::move(masks);
  if (!outcome.shaped_rewards.empty()) out.rewards = {outcome.shaped_rewards, {}};
  const auto column = [&](const auto& get) { return token_floats(samples, get); };
  using Floats = const std::vector<float>&;
  out.log_probs = column([&](size_t i) -> Floats { return outcome.result.scores[i].log_probs; });
  out.entropy = column([&](size_t i) -> Floats { return outcome.result.scores[i].entropy; });
  out.old_log_probs = column([&](size_t i) -> Floats { return targets[i].old_log_probs; });
  out.ref_log_probs = column([&](size_t i) -> Floats { return targets[i].ref_log_probs; });
  out.advantages = column([&](size_t i) -> Floats { return targets[i].advantages; });
  out.scalars = step_scalars(outcome);
  return std::make_shared<const format::TrainData>(std::move(out));
}

}  // namespace rlreplay::replay
