#include "src/engine/step.h"

#include <algorithm>
#include <functional>
#include <map>

#include "src/base/error.h"
#include "src/engine/check_samples.h"
#include "src/engine/finite.h"
#include "src/engine/micro_batch_objective.h"
#include "src/engine/reduce_gradients.h"
#include "src/engine/schedule.h"
#include "src/engine/step_events.h"
#include "src/objective/check_batch.h"

namespace rlreplay::engine {
namespace {

constexpr int kScaleStep = 8;  // what an overflow takes off the scale
constexpr int kScaleTries = 3;

/// What the samples of a micro-batch go through in this rank's stage: forward, objective, backward.
class MicroBatchPass {
 public:
  MicroBatchPass(const ModelContext& context, const StepConfig& config, const StepBatch& batch,
                 const StageOptions& options, MicroBatch which)
      : context_(context),
        config_(config),
        batch_(batch),
        which_(which),
        samples_(pointers_to(batch.samples.subspan(which.first, which.count))),
        stage_(context, samples_, options) {}

  void forward() { stage_.forward(); }

  /// The backward of a micro-batch. Only the last stage has scores, and so the objective.
  void backward(Gradients& gradients, StepResult& out) {
    if (!context_.model.shard().last) {
      stage_.backward({}, gradients);
      return;
    }
    MicroBatchObjective objective(context_, config_, batch_, which_.first, which_.count, out);
    const LossGradient loss_gradient = [&](kernels::Range rows, const Scores& scores,
                                           std::span<float> c, std::span<float> ce) {
      objective.loss_gradient(rows, scores, c, ce);
    };
    objective.keep_scores(stage_.backward(loss_gradient, gradients));
    if (config_.progress) config_.progress(static_cast<int64_t>(which_.first + which_.count));
  }

 private:
  const ModelContext& context_;
  const StepConfig& config_;
  const StepBatch& batch_;
  const MicroBatch which_;
  const std::vector<const Sample*> samples_;
  StageBatch stage_;
};

/// All samples of the rank, a micro-batch at a time: which one goes forward or backward next is the
/// pipeline's schedule, and without a pipeline each goes back at once.
void forward_backward(const ModelContext& context, Gradients& gradients, const StepBatch& batch,
                      const StepConfig& config, StepResult& out) {
  const std::vector<MicroBatch> all = micro_batches(batch.samples.size(), config.micro_batch_size);
  // Begun anew each time that a step is taken; MicroBatchObjective fills both, of its own samples.
  out.scores.assign(batch.samples.size(), {});
  out.terms.assign(batch.samples.size(), {});
  StageOptions options = config.train;
  options.scored = config.objective.reads_sequence() ? Scored::kAll : Scored::kUpToRow;
  const Ranks* ranks = context.runtime.ranks;
  const int64_t after = ranks == nullptr ? 0 : ranks->layout.pp - 1 - ranks->place.pp;
  std::map<int64_t, MicroBatchPass> in_flight;
  for (const StageAction& action : make_schedule(after, std::ssize(all))) {
    if (action.forward) {
      const MicroBatch which = all[static_cast<size_t>(action.micro_batch)];
      in_flight.try_emplace(action.micro_batch, context, config, batch, options, which)
          .first->second.forward();
    } else {
      in_flight.at(action.micro_batch).backward(gradients, out);
      in_flight.erase(action.micro_batch);
    }
  }
  gradients.finish();
}

/// S of the gradient sums, after `redone` overflows.
int step_scale(const Runtime& runtime, double weight, std::optional<int> held, int redone) {
  emit_scalar(runtime, Phase::kObjective, Op::kScale, "total_weight", weight);
  int64_t scale = held.value_or(kernels::token_scale(weight)) - redone * kScaleStep;
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
  again(runtime.with(&watch));
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

/// Refuses a step of several ranks without naming an element: who runs the ranks takes the same
/// step in one, which does.
[[noreturn]] void refuse_in_ranks() {
  throw Error(ErrorCode::kCorrupt,
              "a contribution to a gradient is no finite number, or does not fit its exact sum");
}

/// Refuses a step whose contributions no further scale can take.
[[noreturn]] void refuse_step(const Runtime& runtime, const ParameterTable& parameters,
                              const Gradients& gradients, int scale,
                              const std::function<void(const Runtime&)>& again) {
  if (runtime.ranks != nullptr) refuse_in_ranks();
  const Gradients::Refused refused = *gradients.refused();
  if (refused.finite) refuse_overflow(parameters, refused, scale);
  refuse_gradient(runtime, parameters, refused, again);
}

/// Takes back the events that the step has emitted. The empty sum is a barrier: no rank emits again
/// before the sinks of all have forgotten.
void restart(const Runtime& runtime) {
  if (runtime.sink != nullptr) runtime.sink->restart();
  if (runtime.ranks != nullptr) runtime.ranks->world.sum({});
}

}  // namespace

StepResult run_step(const Runtime& runtime, TrainState& state, Gradients& gradients,
                    const RotaryView& rotary, std::span<const Sample> samples,
                    std::span<const SampleTargets> targets, const StepConfig& config) {
  check_samples(state.model.config(), samples);
  if (runtime.ranks == nullptr || !samples.empty()) check_batch(config.objective, samples, targets);
  const ModelContext context{runtime, state.model, rotary};
  StepResult out;
  GlobalBatch global = gather_batch(runtime, config.objective, config.train.leaf,
                                    config.trajectories, samples, targets);
  std::optional<int> held_scale;
  if (config.held) {
    keep_weights_of(*config.held, global);
    held_scale = config.held->scale;
  }
  const StepBatch batch{samples, targets, global};
  for (int redone = 0;; ++redone) {
    out.scale = step_scale(runtime, global.loss_weight, held_scale, redone);
    gradients.begin(out.scale, global.counts);
    forward_backward(context, gradients, batch, config, out);
    // Refused is a contribution that is no finite number, or too large for the exact sum at this
    // scale: that one a smaller scale may take.
    const RefusedByRanks refused = gather_refused(runtime, gradients);
    if (!refused.any) break;
    if (!refused.finite || redone + 1 == kScaleTries) {
      refuse_step(runtime, state.model.parameters(), gradients, out.scale,
                  [&](const Runtime& watched) {
                    gradients.begin(out.scale, global.counts);
                    forward_backward(context.with(watched), gradients, batch, config, out);
                  });
    }
    restart(runtime);
  }
  if (state.model.shard().last) gather_tokens(runtime, samples, config.train.leaf, out);
  std::vector<Losses> losses;
  for (size_t i = 0; state.model.shard().last && i < samples.size(); ++i) {
    losses.push_back(sample_losses(samples[i], batch.weight(i), out.scores[i], out.terms[i]));
  }
  // Copies are compared where they must be one: the sums before the norm is taken of them, the
  // state after the update. Of many ranks each shows its part of a gradient, which emit_parts
  // joins.
  out.losses = gather_losses(runtime, global, losses);
  emit_losses(runtime, out.losses);
  reduce_gradients(runtime, state.model, gradients);
  if (runtime.ranks == nullptr) emit_gradients(runtime, state.model.parameters(), gradients);
  const kernels::Range own = state.moments.held;  // of the sums, too
  emit_parts(runtime, state.model, Phase::kReduce, Op::kGradient,
             gradients.all_sums().data() + own.begin, own);
  out.replicas = compare_sums(runtime, state.model, own, gradients);
  out.grad_norm = gradient_norm(runtime, state.model, own, gradients);
  emit_scalar(runtime, Phase::kClip, Op::kClip, "norm", out.grad_norm);
  out.clip_scale = clip_scale(config.optimizer, out.grad_norm);
  emit_scalar(runtime, Phase::kClip, Op::kClip, "scale", out.clip_scale);
  state.step += 1;
  optimizer_step(runtime, config.optimizer, config.lr, state.step, gradients, out.clip_scale,
                 state.model, state.moments);
  if (!out.replicas) out.replicas = compare_state(runtime, state.model, state.moments);
  return out;
}

}  // namespace rlreplay::engine
