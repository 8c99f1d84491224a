#include "src/replay/run/run.h"

#include <algorithm>
#include <iostream>

#include "src/base/error.h"
#include "src/base/progress.h"
#include "src/base/with_place.h"

namespace rlreplay::replay {
namespace {

/// Responses with their rewards.
RolloutBatch generate_and_judge(Trainer& trainer, const RunTask& task, int64_t id,
                                RunObserver& observer, const RunStart& start) {
  if (start.samples) {
    std::vector<Sample> samples = start.samples(id);
    if (!samples.empty()) return {.id = id, .samples = std::move(samples)};
  }
  const std::vector<engine::Request> requests = task.requests(id);
  Progress progress("rollout " + std::to_string(id), "samples",
                    static_cast<int64_t>(requests.size()));
  engine::EventSink* sink = observer.rollout_sink(id);
  std::vector<Sample> samples = with_rollout(id, [&] {
    return trainer.generate(requests, sink, [&](int64_t finished) { progress.at(finished); });
  });
  RolloutBatch batch = task.judge(id, std::move(samples));
  for (const Sample& s : batch.samples) batch.stopped.push_back(trainer.has_stopped(s));
  batch.version = trainer.backend().steps();
  observer.rollout(batch);
  return batch;
}

/// Many models learn nothing at first, and a table of zeros does not say why.
void note_advantages(int64_t id, std::span<const SampleTargets> targets) {
  const bool any = std::ranges::any_of(targets, [](const SampleTargets& t) {
    return std::ranges::any_of(t.advantages, [](float a) { return a != 0; });
  });
  if (any || targets.empty()) return;
  std::cerr << "rlreplay: rollout " << id
            << ": all advantages are 0, no group has different rewards: nothing is learned\n";
}

/// A state that ranks do not agree on is no state to go on from.
void check_replicas(const StepOutcome& outcome) {
  if (outcome.replicas.empty()) return;
  throw Error(ErrorCode::kEnvironment,
              "ranks hold copies of a number that differ: " + outcome.replicas +
                  "; one of them computed or kept it wrongly, and the step was not recorded");
}

/// Targets of a rollout, then its steps, at most `max_steps`.
void train_rollout(Trainer& trainer, const RunOptions& options, const RolloutBatch& batch,
                   int64_t max_steps, RunObserver& observer) {
  const std::vector<SampleTargets> targets =
      with_rollout(batch.id, [&] { return trainer.targets(batch.samples); });
  const std::vector<double> shaped = trainer.shaped_rewards(batch.samples);
  note_advantages(batch.id, targets);
  const auto size = static_cast<size_t>(step_samples(options));
  const auto steps = static_cast<int64_t>(batch.samples.size() / size);
  for (int64_t step = 0; step < std::min(steps, max_steps); ++step) {
    const size_t first = static_cast<size_t>(step) * size;
    const auto samples = std::span(batch.samples).subspan(first, size);
    const auto step_targets = std::span(targets).subspan(first, size);
    engine::EventSink* sink = observer.step_sink(batch.id, step, samples);
    StepOutcome outcome =
        with_step({batch.id, step}, [&] { return trainer.step(samples, step_targets, sink); });
    with_step({batch.id, step}, [&] { check_replicas(outcome); });
    outcome.rollout_id = batch.id;
    outcome.step_id = step;
    const auto rewards = std::span(shaped).subspan(first, size);
    outcome.shaped_rewards.assign(rewards.begin(), rewards.end());
    observer.step(outcome, samples, step_targets);
  }
}

}  // namespace

void run_training(Trainer& trainer, const RunTask& task, const RunOptions& options,
                  RunObserver& observer, const RunStart& start) {
  const int64_t per_rollout = steps_per_rollout(options);
  int64_t left = planned_steps(options) - start.rollout * per_rollout;
  for (int64_t id = start.rollout; left > 0; ++id) {
    const RolloutBatch batch = generate_and_judge(trainer, task, id, observer, start);
    if (!options.rollout_only) train_rollout(trainer, options, batch, left, observer);
    left -= per_rollout;
  }
}

}  // namespace rlreplay::replay
