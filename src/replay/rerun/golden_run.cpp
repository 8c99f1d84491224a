#include "src/replay/rerun/golden_run.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/base/layout.h"
#include "src/base/step_id.h"
#include "src/replay/capture/digesting.h"
#include "src/replay/launch/recorded_command.h"
#include "src/replay/source/model_source.h"

namespace rlreplay::replay {
namespace {

/// Options that change no number of a run: a golden file does not name them.
constexpr std::string_view kWithoutEffect[] = {
    "micro-batch-size", "recompute", "rollout-slots", "save",
    "threads",          "record",    "weights",       "rollout-only"};

double mean_log_prob(const engine::StepResult& result) {
  double sum = 0, count = 0;
  for (const Scores& scores : result.scores) {
    for (const float value : scores.log_probs) sum += static_cast<double>(value);
    count += static_cast<double>(scores.log_probs.size());
  }
  return count > 0 ? sum / count : 0;
}

/// Keeps what a run gives, and plants a difference in it where one is asked for.
class Keeper : public DigestingObserver {
 public:
  Keeper(const RunOptions& options, Trainer& trainer, ThreadPool& pool,
         const std::optional<Injection>& planted)
      : DigestingObserver(options, trainer, pool) {
    if (!planted) return;
    injecting_.emplace(*planted, trainer.backend().config(), trainer.backend().parameters(),
                       parse_layout(options.layout), DigestingObserver::step_sink(0, 0, {}));
  }

  engine::EventSink* step_sink(int64_t rollout_id, int64_t step_id,
                               std::span<const Sample> samples) override {
    if (!injecting_) return DigestingObserver::step_sink(rollout_id, step_id, samples);
    injecting_->begin(rollout_id, step_id, engine::sample_shapes(samples));
    return &*injecting_;
  }
  void rollout(const RolloutBatch& batch) override { add_golden(batch, entries_); }
  void step(StepOutcome& outcome, std::span<const Sample> samples,
            std::span<const SampleTargets> targets) override {
    DigestingObserver::step(outcome, samples, targets);
    add_golden(outcome, entries_);
  }
  GoldenEntries take() { return std::move(entries_); }
  bool has_planted() const { return injecting_ && injecting_->planted(); }

 private:
  std::optional<InjectingSink> injecting_;
  GoldenEntries entries_;
};

}  // namespace

void add_golden(const RolloutBatch& rollout, GoldenEntries& entries) {
  const std::string key = "rollout " + std::to_string(rollout.id) + " ";
  Hasher tokens, log_probs;
  for (const Sample& s : rollout.samples) {
    const auto length = static_cast<int64_t>(s.tokens.size());
    tokens.update(std::as_bytes(std::span(&length, 1)));
    tokens.update(std::as_bytes(std::span(s.tokens)));
    log_probs.update(std::as_bytes(std::span(s.rollout_log_probs)));
  }
  entries[key + "tokens"] = tokens.finish().hex();
  entries[key + "log_probs"] = log_probs.finish().hex();
}

void add_golden(const StepOutcome& step, GoldenEntries& entries) {
  const std::string key = "step " + StepId{step.rollout_id, step.step_id}.name() + " ";
  entries[key + "reward"] = golden_value(step.reward.value());
  entries[key + "loss"] = golden_value(step.result.losses.total);
  entries[key + "grad_norm"] = golden_value(step.result.grad_norm);
  entries[key + "mean_log_prob"] = golden_value(mean_log_prob(step.result));
  if (!step.digests) return;
  entries[key + "weights"] = step.digests->weights.hex();
  entries[key + "gradients"] = step.digests->gradients.hex();
  entries[key + "optimizer"] = step.digests->optimizer.hex();
}

void check_golden_options(const RunOptions& options) {
  check_batches(options);
  check_on_policy(options);
  const int64_t in_rollout = steps_per_rollout(options);
  const int64_t rollouts = (planned_steps(options) + in_rollout - 1) / in_rollout;
  if (rollouts <= kMaxGoldenSamples && rollouts * rollout_samples(options) <= kMaxGoldenSamples) {
    return;
  }
  throw Error(ErrorCode::kUsage,
              "a golden run is short, of at most " + std::to_string(kMaxGoldenSamples) +
                  " samples, and these options ask for " + std::to_string(rollouts) +
                  " rollouts of " + std::to_string(rollout_samples(options)) +
                  ": take fewer rollouts, prompts or samples");
}

GoldenEntries golden_run(const engine::Runtime& runtime, const RunOptions& options,
                         const std::optional<Injection>& planted) {
  const auto model = find_model(options.model, options.seed);
  const RunTask task(options, *model);
  Trainer trainer(runtime, options, *model, {true, true, task.longest_prompt()});
  Keeper keeper(options, trainer, runtime.pool, planted);
  run_training(trainer, task, options, keeper);
  if (planted && !keeper.has_planted()) {
    throw Error(ErrorCode::kUsage, "--inject " + to_string(*planted) +
                                       ": nothing was planted, the run has no such step or event, "
                                       "never reached its element, or (of @RANK) another rank "
                                       "holds it");
  }
  return keeper.take();
}

GoldenEntries golden_options(const RunOptions& options) {
  GoldenEntries out;
  for (const Option& option : option_table()) {
    const std::string text = recorded_text(options, option);
    if (text.empty() && recorded_text(RunOptions{}, option).empty()) continue;
    if (std::ranges::find(kWithoutEffect, option.name) != std::end(kWithoutEffect)) continue;
    out[std::string(option.name)] = text;
  }
  return out;
}

RunOptions options_of(const GoldenEntries& options) {
  RunOptions out;
  apply_settings(out, std::vector<Setting>(options.begin(), options.end()));
  return out;
}

}  // namespace rlreplay::replay
