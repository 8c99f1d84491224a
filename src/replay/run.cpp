#include "src/replay/run.h"

#include <algorithm>

#include "src/base/progress.h"

namespace rlreplay::replay {
namespace {

RolloutBatch generate(Trainer& trainer, const Task& task, int64_t id, RunObserver& observer,
                      const RunStart& start) {
  if (start.samples) {
    std::vector<engine::Sample> samples = start.samples(id);
    if (!samples.empty()) return {id, std::move(samples), {}};
  }
  const std::vector<engine::Request> requests = task.requests(id);
  Progress progress("rollout " + std::to_string(id), "samples",
                    static_cast<int64_t>(requests.size()));
  std::vector<engine::Sample> samples = trainer.generate(
      requests, observer.rollout_sink(id), [&](int64_t finished) { progress.at(finished); });
  RolloutBatch batch = task.judge(id, std::move(samples));
  observer.rollout(batch);
  return batch;
}

}  // namespace

void train_rollout(Trainer& trainer, const RunOptions& options, const RolloutBatch& batch,
                   int64_t max_steps, RunObserver& observer) {
  const std::vector<engine::SampleTargets> targets = trainer.targets(batch.samples);
  const auto size = static_cast<size_t>(step_samples(options));
  const auto steps = static_cast<int64_t>(batch.samples.size() / size);
  for (int64_t step = 0; step < std::min(steps, max_steps); ++step) {
    const size_t first = static_cast<size_t>(step) * size;
    const auto samples = std::span(batch.samples).subspan(first, size);
    const auto aims = std::span(targets).subspan(first, size);
    StepOutcome outcome = trainer.step(samples, aims, observer.step_sink(batch.id, step, samples));
    outcome.rollout_id = batch.id;
    outcome.step_id = step;
    observer.step(outcome, samples, aims);
  }
}

void run_training(Trainer& trainer, const Task& task, const RunOptions& options,
                  RunObserver& observer, const RunStart& start) {
  const int64_t per_rollout = rollout_samples(options) / step_samples(options);
  int64_t left = planned_steps(options) - start.rollout * per_rollout;
  for (int64_t id = start.rollout; left > 0; ++id) {
    const RolloutBatch batch = generate(trainer, task, id, observer, start);
    if (!options.rollout_only) train_rollout(trainer, options, batch, left, observer);
    left -= per_rollout;
  }
}

}  // namespace rlreplay::replay
