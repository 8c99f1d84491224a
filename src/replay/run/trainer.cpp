#include "src/replay/run/trainer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/base/error.h"
#include "src/base/layout.h"
#include "src/base/model_shape.h"
#include "src/base/progress.h"
#include "src/engine/shard.h"
#include "src/objective/advantage.h"
#include "src/replay/options/objective_config.h"
#include "src/replay/run/run_config.h"
#include "src/replay/source/model_source.h"

namespace rlreplay::replay {
namespace {

engine::LearningRate learning_rate(const RunOptions& options) {
  engine::LearningRate out;
  out.lr = options.lr;
  out.min_lr = options.min_lr;
  out.warmup_init = options.lr_warmup_init;
  out.warmup_iters = options.lr_warmup_iters;
  out.decay_iters = options.lr_decay_iters.value_or(planned_steps(options));
  if (options.lr_decay_style == "linear") out.decay_style = engine::DecayStyle::kLinear;
  if (options.lr_decay_style == "cosine") out.decay_style = engine::DecayStyle::kCosine;
  engine::check_learning_rate(out);
  return out;
}

/// Lets a sink see what a runtime does, for as long as it lives.
class Watched {
 public:
  Watched(engine::Runtime& runtime, engine::EventSink* sink) : runtime_(runtime) {
    runtime_.sink = sink;
  }
  ~Watched() { runtime_.sink = nullptr; }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  engine::Runtime& runtime_;
};

void load_weights(const engine::Runtime& runtime, const ModelSource& source, engine::Backend& to) {
  to.write_state(0, [&](const StateSpans<float>& state) {
    source.load(runtime, to.parameters(), state.weights);
  });
}

/// work() of a backend that has other weights meanwhile, in all of its ranks; `other` has the
/// backend's own. A failure leaves it so: it ends the run.
template <class Work>
auto with_weights(engine::Backend& backend, std::span<float> other, const Work& work) {
  const auto swap = [&] {
    backend.write_state(backend.steps(), [&](const StateSpans<float>& state) {
      std::ranges::swap_ranges(state.weights, other);
    });
  };
  swap();
  auto out = work();
  swap();
  return out;
}

std::vector<std::vector<float>> rollout_log_probs(std::span<const Sample> samples) {
  std::vector<std::vector<float>> out;
  for (const Sample& s : samples) out.push_back(s.rollout_log_probs);
  return out;
}

std::vector<std::vector<float>> train_log_probs(const engine::StepResult& result) {
  std::vector<std::vector<float>> out;
  for (const Scores& scores : result.scores) out.push_back(scores.log_probs);
  return out;
}

bool has_rollout_log_probs(std::span<const Sample> samples) {
  return std::all_of(samples.begin(), samples.end(), [](const Sample& s) {
    return static_cast<int64_t>(s.rollout_log_probs.size()) == s.response_length();
  });
}

size_t count_responses(std::span<const Sample> samples) {
  return static_cast<size_t>(
      std::ranges::count_if(samples, [](const auto& s) { return s.response_length() > 0; }));
}

/// Samples with a response whose field is empty.
size_t count_missing(std::span<const Sample> samples, std::span<const SampleTargets> targets,
                     std::vector<float> SampleTargets::*field) {
  size_t out = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    out += samples[i].response_length() > 0 && (targets[i].*field).empty() ? 1 : 0;
  }
  return out;
}

/// The sampler's log-probabilities as the old ones, whatever else was recorded.
void take_rollout_log_probs(std::span<const Sample> samples, std::span<SampleTargets> targets) {
  for (size_t i = 0; i < samples.size(); ++i) {
    if (std::ssize(samples[i].rollout_log_probs) != samples[i].response_length()) {
      throw Error(ErrorCode::kIncomplete, "--use-rollout-logprobs: sample " +
                                              std::to_string(samples[i].id) +
                                              " has no log-probabilities of its rollout");
    }
    targets[i].old_log_probs = samples[i].rollout_log_probs;
  }
}

bool has_value(const std::optional<double>& reward) { return reward.has_value(); }

/// Recorded rewards where they are there, else computed ones.
std::vector<double> completed(const engine::AdvantageConfig& config,
                              std::span<const Sample> samples, const ShapedRewards& shaped) {
  std::vector<double> out(samples.size());
  if (!std::ranges::all_of(shaped, has_value)) out = engine::shaped_rewards(config, samples);
  for (size_t i = 0; i < out.size(); ++i) out[i] = shaped[i].value_or(out[i]);
  return out;
}

double mean_reward(std::span<const Sample> samples) {
  double sum = 0;
  for (const size_t i : by_id(samples)) sum += samples[i].reward;
  return samples.empty() ? 0 : sum / static_cast<double>(samples.size());
}

}  // namespace

Trainer::Trainer(const engine::Runtime& runtime, const RunOptions& options,
                 const ModelSource& model, const Workload& workload)
    : runtime_(runtime), options_(options), schedule_(learning_rate(options)) {
  const Layout layout = parse_layout(options.layout);
  if (runtime.host != nullptr) runtime.host->check_layout(layout);
  engine::check_layout(model.config(), layout);
  options_.micro_batch_size = plan_run_memory(options, model.config(), workload);
  const engine::BackendConfig config{
      .model = model.config(), .rope = rope(options), .layout = layout};
  backend_ = engine::make_backend(options.kernels, runtime_, config);
  load_weights(runtime_, model, *backend_);
  if (!needs_reference(options)) return;
  reference_.resize(static_cast<size_t>(backend_->parameters().elements));
  if (options.ref_load.empty()) {
    std::ranges::copy(backend_->state().weights, reference_.begin());
    return;
  }
  const auto source = find_model(options.ref_load, options.seed);
  if (!same_shape(source->config(), model.config())) {
    throw Error(ErrorCode::kUsage,
                "the reference model's shape is not that of --model: " +
                    shape_difference(source->config(), model.config()),
                options.ref_load);
  }
  source->load(runtime_, backend_->parameters(), reference_);
}

std::vector<Sample> Trainer::generate(std::span<const engine::Request> requests,
                                      engine::EventSink* sink,
                                      const std::function<void(int64_t)>& progress) {
  const Watched watched(runtime_, sink);
  return backend_->generate(requests, rollout_config(options_, backend_->config()), progress);
}

bool Trainer::has_stopped(const Sample& sample) const {
  const auto stops = rollout_config(options_, backend_->config()).stop_ids;
  return std::ranges::find(stops, sample.tokens.back()) != stops.end();
}

std::vector<std::vector<float>> Trainer::log_probs(std::span<const Sample> samples) {
  std::vector<std::vector<float>> out;
  const auto temperature = static_cast<float>(options_.rollout_temperature);
  for (Scores& s : backend_->score(samples, temperature, options_.micro_batch_size)) {
    out.push_back(std::move(s.log_probs));
  }
  return out;
}

/// Computes what is missing of a field, by the weights as they are or by the reference's.
void Trainer::fill(Whose whose, std::span<const Sample> samples, TargetField field,
                   std::span<SampleTargets> targets) {
  if (count_missing(samples, targets, field) == 0) return;
  const auto score = [&] { return log_probs(samples); };
  auto computed = whose == Whose::kPolicy ? score() : with_weights(*backend_, reference_, score);
  for (size_t i = 0; i < samples.size(); ++i) {
    if ((targets[i].*field).empty()) targets[i].*field = std::move(computed[i]);
  }
}

std::vector<SampleTargets> Trainer::targets(std::span<const Sample> samples,
                                            std::vector<SampleTargets> given) {
  given.resize(samples.size());
  complete_targets(samples, static_cast<int64_t>(samples.size()) > step_samples(options_), given);
  return given;
}

std::vector<double> Trainer::shaped_rewards(std::span<const Sample> samples) const {
  return engine::shaped_rewards(advantage_config(options_), samples);
}

void Trainer::complete_targets(std::span<const Sample> samples, bool several_steps,
                               std::span<SampleTargets> targets, const ShapedRewards& shaped) {
  using Targets = SampleTargets;
  if (options_.use_rollout_logprobs) take_rollout_log_probs(samples, targets);
  // Before its only update the policy is its own past: the step's forward pass gives both.
  const size_t no_old = count_missing(samples, targets, &Targets::old_log_probs);
  const bool read_before = options_.kl_coef != 0 || options_.use_opd;
  if (several_steps || read_before || no_old < count_responses(samples)) {
    fill(Whose::kPolicy, samples, &Targets::old_log_probs, targets);
  }
  if (needs_reference(options_)) {
    fill(Whose::kReference, samples, &Targets::ref_log_probs, targets);
  }
  if (count_missing(samples, targets, &Targets::advantages) == 0) return;
  std::vector<Targets> computed(targets.begin(), targets.end());
  const engine::AdvantageConfig config = advantage_config(options_);
  if (std::ranges::none_of(shaped, has_value)) {
    engine::set_advantages(config, samples, computed);
  } else {
    engine::set_advantages(config, samples, completed(config, samples, shaped), computed);
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    if (targets[i].advantages.empty()) targets[i].advantages = std::move(computed[i].advantages);
  }
}

engine::HeldBatch Trainer::held_batch(std::span<const Sample> samples,
                                      std::span<const SampleTargets> targets, int scale) const {
  const engine::StepConfig config = step_config(options_);
  return engine::hold_batch(runtime_, config.objective, config.train.leaf, config.trajectories,
                            samples, targets, scale);
}

StepOutcome Trainer::step(std::span<const Sample> samples, std::span<const SampleTargets> targets,
                          engine::EventSink* sink, std::optional<int64_t> trajectories,
                          std::optional<engine::HeldBatch> held) {
  const Clock::time_point start = Clock::now();
  Progress progress("step", "samples", std::ssize(samples));
  progress.at(0);
  engine::StepConfig config = step_config(options_);
  config.progress = [&](int64_t finished) { progress.at(finished); };
  config.lr = engine::learning_rate(schedule_, backend_->steps());  // before it counts this one
  config.trajectories = trajectories;
  config.held = std::move(held);
  StepOutcome out;
  out.lr = config.lr;
  {
    const Watched watched(runtime_, sink);
    out.result = backend_->step(samples, targets, config);
  }
  if (out.result.replicas) {
    out.replicas = engine::to_string(*out.result.replicas, parse_layout(options_.layout));
  }
  const std::vector<std::vector<float>> trained = train_log_probs(out.result);
  if (has_rollout_log_probs(samples)) {
    out.train_vs_rollout = compare_log_probs(samples, trained, rollout_log_probs(samples));
  }
  if (needs_reference(options_)) {
    std::vector<std::vector<float>> reference;
    for (const SampleTargets& t : targets) reference.push_back(t.ref_log_probs);
    out.policy_vs_reference = compare_log_probs(samples, trained, reference);
  }
  out.reward = mean_reward(samples);
  for (const Sample& s : samples) out.tokens += static_cast<int64_t>(s.tokens.size());
  const Clock::time_point end = Clock::now();
  const auto seconds = [&](Clock::time_point from) {
    return std::chrono::duration<double>(end - from).count();
  };
  out.seconds = seconds(std::exchange(lap_, end));
  out.train_seconds = seconds(start);
  return out;
}

}  // namespace rlreplay::replay
