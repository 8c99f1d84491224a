#include "src/engine/step.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "src/base/error.h"
#include "src/engine/check_samples.h"
#include "src/engine/finite.h"
#include "src/engine/step_events.h"
#include "src/objective/check_batch.h"

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

/// Refuses scores of `rows` that the objective would read and that are not finite.
void check_finite(const ModelContext& context, std::span<const Sample> samples, const Place& place,
                  kernels::Range rows, const Scores& scores, float temperature) {
  for (auto r = static_cast<size_t>(rows.begin); r < static_cast<size_t>(rows.end); ++r) {
    const Sample& s = samples[place.sample[r]];
    if (s.is_masked(static_cast<int64_t>(place.token[r]))) continue;
    if (std::isfinite(scores.log_probs[r]) && std::isfinite(scores.entropy[r])) continue;
    refuse_score(context, s, place.positions[r], temperature);
  }
}

/// The global batch's inputs.
struct Batch {
  std::span<const Sample> samples;
  std::span<const SampleTargets> targets;
  std::span<const double> weights;

  // A sample without a response has none of either.
  bool has_reference() const {
    return std::ranges::any_of(targets, [](const auto& t) { return !t.ref_log_probs.empty(); });
  }
  bool has_rollout() const {
    return std::ranges::any_of(samples, [](const auto& s) { return !s.rollout_log_probs.empty(); });
  }
};

/// The objective of a micro-batch's scored rows, shown to the sink and kept in `out`.
class MicroBatchObjective {
 public:
  MicroBatchObjective(const ModelContext& context, const StepConfig& config, const Batch& batch,
                      size_t first, size_t count, StepResult& out)
      : context_(context),
        step_(config),
        config_(config.objective),
        batch_(batch),
        place_(places(batch.samples, first, count)),
        reference_(batch.has_reference()),
        rolled_(batch.has_rollout()),
        out_(out) {
    for (size_t i = first; i < first + count; ++i) {
      out.terms[i].resize(static_cast<size_t>(batch.samples[i].response_length()));
    }
  }

  /// As LossGradient: called by head_backward for each group of leaves, between its forward and its
  /// backward. Here is where the objective runs.
  void operator()(kernels::Range rows, const Scores& scores, std::span<float> c,
                  std::span<float> ce) {
    const auto begin = static_cast<size_t>(rows.begin), n = static_cast<size_t>(rows.size());
    if (!config_.reads_sequence()) compute(begin, n, scores);
    if (config_.reads_sequence() && begin == 0) compute(0, size(), scores);
    for (size_t r = 0; r < n; ++r) {
      const TokenTerms& term = out_.terms[place_.sample[begin + r]][place_.token[begin + r]];
      c[r] = term.c;
      ce[r] = term.ce;
    }
  }

  void keep_scores(const Scores& all) {
    for (size_t r = 0; r < size(); ++r) {
      Scores& scores = out_.scores[place_.sample[r]];
      scores.log_probs.push_back(all.log_probs[r]);
      scores.entropy.push_back(all.entropy[r]);
    }
  }

 private:
  size_t size() const { return place_.sample.size(); }

  /// Of rows [begin, begin + n): whole samples where a token's terms depend on them.
  void compute(size_t begin, size_t n, const Scores& scores) {
    const kernels::Range rows{static_cast<int64_t>(begin), static_cast<int64_t>(begin + n)};
    check_finite(context_, batch_.samples, place_, rows, scores, step_.train.temperature);
    const RowCoordinates at{place_.ids.data() + begin, place_.positions.data() + begin};
    std::vector<TokenInput> in;
    for (size_t r = begin; r < begin + n; ++r) {
      const size_t i = place_.sample[r];
      in.push_back(token_input(batch_.samples[i], batch_.targets[i], batch_.weights[i],
                               place_.token[r], scores.log_probs[r], scores.entropy[r]));
    }
    emit_targets(context_.runtime, in, reference_, rolled_, at);
    std::vector<TokenTerms> terms = terms_of(begin, in);
    emit_terms(context_.runtime, terms, at);
    for (size_t r = 0; r < n; ++r) {
      out_.terms[place_.sample[begin + r]][place_.token[begin + r]] = terms[r];
    }
  }

  std::vector<TokenTerms> terms_of(size_t begin, std::span<const TokenInput> in) const {
    std::vector<TokenTerms> out;
    for (size_t r = 0; r < in.size();) {
      size_t end = r + 1;
      while (end < in.size() && place_.sample[begin + end] == place_.sample[begin + r]) ++end;
      const auto terms = sample_objective(config_, in.subspan(r, end - r));
      out.insert(out.end(), terms.begin(), terms.end());
      r = end;
    }
    return out;
  }

  const ModelContext& context_;
  const StepConfig& step_;
  const ObjectiveConfig& config_;
  const Batch& batch_;
  const Place place_;  // of each scored row
  const bool reference_, rolled_;
  StepResult& out_;
};

/// Samples [first, first + count) through forward, objective and backward.
void run_micro_batch(const ModelContext& context, Gradients& gradients, const Batch& batch,
                     const StepConfig& config, size_t first, size_t count, StepResult& out) {
  std::vector<const Sample*> samples;
  for (size_t i = first; i < first + count; ++i) samples.push_back(&batch.samples[i]);
  MicroBatchObjective objective(context, config, batch, first, count, out);
  TrainOptions options = config.train;
  options.scored = config.objective.reads_sequence() ? Scored::kAll : Scored::kUpToRow;
  objective.keep_scores(
      train_micro_batch(context, samples, options, std::ref(objective), gradients));
}

void forward_backward(const ModelContext& context, Gradients& gradients, const Batch& batch,
                      const StepConfig& config, StepResult& out) {
  const size_t samples = batch.samples.size();
  out.scores.assign(samples, {});
  out.terms.assign(samples, {});
  const size_t size = config.micro_batch_samples > 0
                          ? static_cast<size_t>(config.micro_batch_samples)
                          : std::max<size_t>(1, samples);
  for (size_t first = 0; first < samples; first += size) {
    const size_t count = std::min(size, samples - first);
    run_micro_batch(context, gradients, batch, config, first, count, out);
    if (config.progress) config.progress(static_cast<int64_t>(first + count));
  }
  gradients.finish();
}

void emit_losses(const Runtime& runtime, Losses& losses) {
  const auto emit = [&](std::string_view tensor, double& value) {
    emit_scalar(runtime, Phase::kObjective, Op::kLoss, tensor, value);
  };
  emit("policy", losses.policy);
  emit("entropy", losses.entropy);
  emit("kl", losses.kl);
  emit("total", losses.total);
  emit("clip_fraction", losses.clip_fraction);
}

/// S of the gradient sums, after `redone` overflows.
int step_scale(const Runtime& runtime, double weight, int redone) {
  emit_scalar(runtime, Phase::kObjective, Op::kScale, "total_weight", weight);
  int64_t scale = kernels::token_scale(weight) - redone * kScaleStep;
  emit_scalar(runtime, Phase::kObjective, Op::kScale, "scale", scale);
  return static_cast<int>(scale);
}

/// `q_proj.weight[3, 7]`, an element of a parameter.
std::string name_of(const Parameter& p, int64_t element) {
  const std::string column = std::to_string(element % p.cols);
  return p.name + "[" +
         (p.is_vector() ? column : std::to_string(element / p.cols) + ", " + column) + "]";
}

[[noreturn]] void refuse_overflow(const ParameterTable& parameters,
                                  const Gradients::Refused& refused, int scale) {
  const Parameter& p = parameters[refused.parameter];
  throw Error(ErrorCode::kUnsupported,
              "a contribution to the gradient of " + name_of(p, refused.element) +
                  " does not fit its exact sum at scale 2^-" + std::to_string(scale) +
                  ": the gradients of this step are too large",
              p.name);
}

/// The step's forward and backward once more, to see where its first infinity or NaN is.
[[noreturn]] void refuse_gradient(const Runtime& runtime, const ParameterTable& parameters,
                                  const Gradients::Refused& refused,
                                  const std::function<void(const Runtime&)>& again) {
  FiniteWatch watch(runtime.sink);
  watch.restart();
  again({runtime.kernels, runtime.pool, &watch});
  const Parameter& p = parameters[refused.parameter];
  const auto& found = watch.found();
  throw Error(ErrorCode::kCorrupt,
              "a contribution to the gradient of " + name_of(p, refused.element) +
                  " is no finite number; " +
                  (found ? "the first that is not is " + to_string(*found)
                         : "all that it was computed from is finite") +
                  ": look at the weights, and at the learning rate and the norms of the steps "
                  "before",
              found ? "sample " + std::to_string(found->sample) : p.name);
}

}  // namespace

StepResult run_step(const Runtime& runtime, TrainState& state, Gradients& gradients,
                    const RotaryView& rotary, std::span<const Sample> samples,
                    std::span<const SampleTargets> targets, const StepConfig& config) {
  check_samples(state.model.config(), samples);
  check_batch(config.objective, samples, targets);
  const ModelContext context{runtime, state.model, rotary};
  StepResult out;
  const std::vector<double> weights =
      sample_weights(config.objective.reducer, samples, config.trajectories);
  const ContributionCounts counts = count_contributions(samples, config.train.leaf);
  const double weight = total_loss_weight(config.objective, samples, targets, weights);
  for (int redone = 0;; ++redone) {
    out.scale = step_scale(runtime, weight, redone);
    gradients.begin(out.scale, counts);
    const Batch batch{samples, targets, weights};
    forward_backward(context, gradients, batch, config, out);
    const auto refused = gradients.refused();
    if (!refused) break;
    if (!refused->finite) {
      refuse_gradient(runtime, state.model.parameters(), *refused, [&](const Runtime& watched) {
        gradients.begin(out.scale, counts);
        forward_backward(context.with(watched), gradients, batch, config, out);
      });
    }
    if (redone + 1 == kScaleTries) {
      refuse_overflow(state.model.parameters(), *refused, out.scale);
    }
    if (runtime.sink != nullptr) runtime.sink->restart();
  }
  out.losses = reduce_losses(samples, weights, out.scores, out.terms);
  emit_losses(runtime, out.losses);
  emit_gradients(runtime, state.model.parameters(), gradients);
  out.grad_norm = gradient_norm(runtime, gradients);
  emit_scalar(runtime, Phase::kClip, Op::kClip, "norm", out.grad_norm);
  out.clip_scale = clip_scale(config.optimizer, out.grad_norm);
  emit_scalar(runtime, Phase::kClip, Op::kClip, "scale", out.clip_scale);
  state.step += 1;
  optimizer_step(runtime, config.optimizer, config.lr, state.step, gradients, out.clip_scale,
                 state.model, state.moments);
  return out;
}

}  // namespace rlreplay::engine
