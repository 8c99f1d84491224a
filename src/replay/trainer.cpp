#include "src/replay/trainer.h"

#include <algorithm>
#include <chrono>

#include "src/base/error.h"
#include "src/engine/advantage.h"
#include "src/replay/models.h"
#include "src/replay/run_config.h"

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

int64_t longest(std::span<const engine::Sample> samples) {
  size_t out = 0;
  for (const engine::Sample& s : samples) out = std::max(out, s.tokens.size());
  return static_cast<int64_t>(out);
}

std::vector<std::vector<float>> rollout_log_probs(std::span<const engine::Sample> samples) {
  std::vector<std::vector<float>> out;
  for (const engine::Sample& s : samples) out.push_back(s.rollout_log_probs);
  return out;
}

std::vector<std::vector<float>> train_log_probs(const engine::StepResult& result) {
  std::vector<std::vector<float>> out;
  for (const engine::Scores& scores : result.scores) out.push_back(scores.log_probs);
  return out;
}

bool has_rollout_log_probs(std::span<const engine::Sample> samples) {
  return std::all_of(samples.begin(), samples.end(), [](const engine::Sample& s) {
    return static_cast<int64_t>(s.rollout_log_probs.size()) == s.response_length();
  });
}

double mean_reward(std::span<const engine::Sample> samples) {
  double sum = 0;
  for (const size_t i : engine::by_id(samples)) sum += samples[i].reward;
  return samples.empty() ? 0 : sum / static_cast<double>(samples.size());
}

}  // namespace

Trainer::Trainer(const engine::Runtime& runtime, const RunOptions& options,
                 const ModelSource& model)
    : run_(runtime),
      options_(options),
      schedule_(learning_rate(options)),
      state_(model.config()),
      gradients_(state_.model.parameters()) {
  model.load(run_, state_.model);
  state_.model.pack(run_, /*backward=*/true);
  if (!needs_reference(options)) return;
  reference_ = std::make_unique<engine::Model>(model.config());
  if (options.ref_load.empty()) {
    std::copy_n(state_.model.weights().data(), state_.model.weights().size(),
                reference_->weights().data());
  } else {
    const auto source = find_model(options.ref_load, static_cast<uint64_t>(options.seed));
    if (!same_shape(source->config(), model.config())) {
      throw Error(ErrorCode::kUsage, "the reference model's shape is not that of --model",
                  options.ref_load);
    }
    source->load(run_, *reference_);
  }
  reference_->pack(run_, /*backward=*/false);
}

engine::RotaryView Trainer::rotary(int64_t positions) {
  if (!rotary_ || rotary_->cos().rows < positions) {
    const int64_t rounded = (positions + 255) / 256 * 256;
    rotary_.emplace(engine::make_rotary_table(config(), rope(options_), rounded, run_.pool));
  }
  return engine::view(*rotary_);
}

std::vector<engine::Sample> Trainer::generate(std::span<const engine::Request> requests,
                                              engine::EventSink* sink,
                                              const std::function<void(int64_t)>& progress) {
  size_t prompt = 0;
  for (const engine::Request& r : requests) prompt = std::max(prompt, r.prompt.size());
  const engine::RolloutConfig rollout = rollout_config(options_, config());
  const int64_t positions =
      std::min(config().max_positions, static_cast<int64_t>(prompt) + rollout.max_response);
  return engine::rollout(watched(sink), state_.model, rotary(positions), requests, rollout,
                         progress);
}

std::vector<std::vector<float>> Trainer::log_probs(const engine::Model& model,
                                                   std::span<const engine::Sample> samples) {
  const engine::RotaryView table = rotary(longest(samples));
  const size_t size = options_.micro_batch_size > 0 ? static_cast<size_t>(options_.micro_batch_size)
                                                    : std::max<size_t>(1, samples.size());
  std::vector<std::vector<float>> out;
  for (size_t first = 0; first < samples.size(); first += size) {
    std::vector<const engine::Sample*> batch;
    const size_t end = std::min(first + size, samples.size());
    for (size_t i = first; i < end; ++i) batch.push_back(&samples[i]);
    const engine::Scores scores =
        engine::score(run_, model, table, batch, static_cast<float>(options_.rollout_temperature));
    auto next = scores.log_probs.begin();
    for (const engine::Sample* s : batch) {
      out.emplace_back(next, next + s->response_length());
      next += s->response_length();
    }
  }
  return out;
}

std::vector<engine::SampleTargets> Trainer::targets(std::span<const engine::Sample> samples) {
  std::vector<engine::SampleTargets> out(samples.size());
  const bool one_step = static_cast<int64_t>(samples.size()) <= step_samples(options_);
  // Before its only update the policy is its own past: the step's forward pass gives both.
  if (!one_step || options_.kl_coef != 0) {
    auto old = log_probs(state_.model, samples);
    for (size_t i = 0; i < samples.size(); ++i) out[i].old_log_probs = std::move(old[i]);
  }
  if (reference_ != nullptr) {
    auto reference = log_probs(*reference_, samples);
    for (size_t i = 0; i < samples.size(); ++i) out[i].ref_log_probs = std::move(reference[i]);
  }
  engine::set_advantages(advantage_config(options_), samples, out);
  return out;
}

StepOutcome Trainer::step(std::span<const engine::Sample> samples,
                          std::span<const engine::SampleTargets> targets, engine::EventSink* sink) {
  const auto start = std::chrono::steady_clock::now();
  engine::StepConfig config = step_config(options_);
  config.lr = engine::learning_rate(schedule_, state_.step);
  StepOutcome out;
  out.lr = config.lr;
  out.result = engine::run_step(watched(sink), state_, gradients_, rotary(longest(samples)),
                                samples, targets, config);
  const std::vector<std::vector<float>> trained = train_log_probs(out.result);
  if (has_rollout_log_probs(samples)) {
    out.train_vs_rollout = compare_log_probs(samples, trained, rollout_log_probs(samples));
  }
  if (reference_ != nullptr) {
    std::vector<std::vector<float>> reference;
    for (const engine::SampleTargets& t : targets) reference.push_back(t.ref_log_probs);
    out.policy_vs_reference = compare_log_probs(samples, trained, reference);
  }
  out.reward = mean_reward(samples);
  for (const engine::Sample& s : samples) out.tokens += static_cast<int64_t>(s.tokens.size());
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace rlreplay::replay
