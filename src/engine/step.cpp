#include "src/engine/step.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/engine/check_batch.h"
#include "src/engine/step_events.h"

namespace rlreplay::engine {
namespace {

constexpr int kScaleStep = 8;  // what an overflow takes off the scale
constexpr int kScaleTries = 3;

ContributionCounts count_contributions(std::span<const Sample> samples, int64_t leaf) {
  ContributionCounts out;
  for (const Sample& s : samples) {
    const auto tokens = static_cast<int64_t>(s.tokens.size());
    out.tokens += tokens;
    out.leaves += (tokens + leaf - 1) / leaf;
  }
  return out;
}

/// A response token of the global batch, and where it stands.
struct Place {
  std::vector<size_t> sample, token;
  std::vector<uint64_t> ids;
  std::vector<int32_t> positions;
};

Place places(std::span<const Sample> samples, size_t first, size_t count) {
  Place out;
  for (size_t i = first; i < first + count; ++i) {
    const Sample& s = samples[i];
    for (int64_t t = 0; t < s.response_length(); ++t) {
      out.sample.push_back(i);
      out.token.push_back(static_cast<size_t>(t));
      out.ids.push_back(s.id);
      out.positions.push_back(static_cast<int32_t>(s.prompt_length + t));
    }
  }
  return out;
}

/// Samples [first, first + count) through forward, objective and backward.
void run_micro_batch(const Runtime& run, const TrainState& state, Gradients& gradients,
                     const RotaryView& rotary, std::span<const Sample> samples,
                     std::span<const SampleTargets> targets, std::span<const double> weights,
                     const StepConfig& config, size_t first, size_t count, StepResult& out) {
  std::vector<const Sample*> batch;
  for (size_t i = first; i < first + count; ++i) {
    batch.push_back(&samples[i]);
    out.terms[i].resize(static_cast<size_t>(samples[i].response_length()));
  }
  // Of the global batch: a sample without a response has none of either.
  const bool reference =
      std::ranges::any_of(targets, [](const auto& t) { return !t.ref_log_probs.empty(); });
  const bool rolled =
      std::ranges::any_of(samples, [](const auto& s) { return !s.rollout_log_probs.empty(); });
  const Place place = places(samples, first, count);  // of each scored row
  const LossGradient objective = [&](kernels::Range rows, const Scores& scores, std::span<float> c,
                                     std::span<float> ce) {
    const auto begin = static_cast<size_t>(rows.begin), n = static_cast<size_t>(rows.size());
    const RowCoordinates at{place.ids.data() + begin, place.positions.data() + begin};
    std::vector<TokenInput> in;
    for (size_t r = begin; r < begin + n; ++r) {
      const size_t i = place.sample[r];
      in.push_back(token_input(samples[i], targets[i], weights[i], place.token[r],
                               scores.log_probs[r], scores.entropy[r]));
    }
    emit_targets(run, in, reference, rolled, at);
    std::vector<TokenTerms> terms;
    for (const TokenInput& token : in) terms.push_back(token_objective(config.objective, token));
    emit_terms(run, terms, at);
    for (size_t r = 0; r < n; ++r) {
      out.terms[place.sample[begin + r]][place.token[begin + r]] = terms[r];
      c[r] = terms[r].c;
      ce[r] = terms[r].ce;
    }
  };
  const Scores all =
      train_micro_batch(run, state.model, rotary, batch, config.train, objective, gradients);
  for (size_t r = 0; r < place.sample.size(); ++r) {
    Scores& scores = out.scores[place.sample[r]];
    scores.log_probs.push_back(all.log_probs[r]);
    scores.entropy.push_back(all.entropy[r]);
  }
}

void forward_backward(const Runtime& run, const TrainState& state, Gradients& gradients,
                      const RotaryView& rotary, std::span<const Sample> samples,
                      std::span<const SampleTargets> targets, std::span<const double> weights,
                      const StepConfig& config, StepResult& out) {
  out.scores.assign(samples.size(), {});
  out.terms.assign(samples.size(), {});
  const size_t size = config.micro_batch_samples > 0
                          ? static_cast<size_t>(config.micro_batch_samples)
                          : std::max<size_t>(1, samples.size());
  for (size_t first = 0; first < samples.size(); first += size) {
    run_micro_batch(run, state, gradients, rotary, samples, targets, weights, config, first,
                    std::min(size, samples.size() - first), out);
  }
  gradients.finish();
}

void emit_losses(const Runtime& run, Losses& losses) {
  const auto emit = [&](std::string_view tensor, double& value) {
    emit_scalar(run, Phase::kObjective, Op::kLoss, tensor, value);
  };
  emit("policy", losses.policy);
  emit("entropy", losses.entropy);
  emit("kl", losses.kl);
  emit("total", losses.total);
  emit("clip_fraction", losses.clip_fraction);
}

/// S of the gradient sums, after `redone` overflows.
int step_scale(const Runtime& run, double weight, int redone) {
  emit_scalar(run, Phase::kObjective, Op::kScale, "total_weight", weight);
  int64_t scale = kernels::token_scale(weight) - redone * kScaleStep;
  emit_scalar(run, Phase::kObjective, Op::kScale, "scale", scale);
  return static_cast<int>(scale);
}

}  // namespace

StepResult run_step(const Runtime& run, TrainState& state, Gradients& gradients,
                    const RotaryView& rotary, std::span<const Sample> samples,
                    std::span<const SampleTargets> targets, const StepConfig& config) {
  check_batch(config.objective, samples, targets);
  StepResult out;
  const std::vector<double> weights = sample_weights(config.objective.reducer, samples);
  const ContributionCounts counts = count_contributions(samples, config.train.leaf);
  const double weight = total_loss_weight(config.objective, samples, targets, weights);
  for (int redone = 0;; ++redone) {
    out.scale = step_scale(run, weight, redone);
    gradients.begin(out.scale, counts);
    forward_backward(run, state, gradients, rotary, samples, targets, weights, config, out);
    if (gradients.overflowed() < 0) break;
    if (redone + 1 == kScaleTries) {
      const auto& name = state.model.parameters()[gradients.overflowed()].name;
      throw Error(ErrorCode::kUnsupported,
                  "the gradient of " + name + " does not fit its exact sum at scale 2^-" +
                      std::to_string(out.scale) + ": a contribution is too large or not a number",
                  name);
    }
    if (run.sink != nullptr) run.sink->restart();
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    check_scores(samples[i], out.scores[i].log_probs, out.scores[i].entropy);
  }
  out.losses = reduce_losses(samples, weights, out.scores, out.terms);
  emit_losses(run, out.losses);
  emit_gradients(run, state.model.parameters(), gradients);
  out.grad_norm = gradient_norm(run, gradients);
  emit_scalar(run, Phase::kClip, Op::kClip, "norm", out.grad_norm);
  out.clip_scale = clip_scale(config.optimizer, out.grad_norm);
  emit_scalar(run, Phase::kClip, Op::kClip, "scale", out.clip_scale);
  state.step += 1;
  optimizer_step(run, config.optimizer, config.lr, state.step, gradients, out.clip_scale,
                 state.model, state.moments);
  return out;
}

}  // namespace rlreplay::engine
