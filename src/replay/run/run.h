#pragma once

#include <functional>

#include "src/replay/run/run_task.h"
#include "src/replay/run/trainer.h"

namespace rlreplay::replay {

/// Sees a run as it goes. Every call may be left empty.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  /// Where the events of a rollout and of a step go; null: nowhere.
  virtual engine::EventSink* rollout_sink(int64_t /*rollout_id*/) { return nullptr; }
  virtual engine::EventSink* step_sink(int64_t /*rollout_id*/, int64_t /*step_id*/,
                                       std::span<const Sample> /*samples*/) {
    return nullptr;
  }
  virtual void rollout(const RolloutBatch& /*batch*/) {}
  /// `outcome` may be completed: digests, comparison with a record.
  virtual void step(StepOutcome& /*outcome*/, std::span<const Sample> /*samples*/,
                    std::span<const SampleTargets> /*targets*/) {}
};

/// Where a run begins that was begun before: the trainer's state is the one before this rollout.
struct RunStart {
  int64_t rollout = 0;
  /// The samples of a rollout that was generated and judged before; empty: it has to be.
  std::function<std::vector<Sample>(int64_t rollout_id)> samples = {};
};

/// Trains on policy: rollout, rewards, steps, until the planned steps are done; without the steps
/// where the options say so.
void run_training(Trainer& trainer, const RunTask& task, const RunOptions& options,
                  RunObserver& observer, const RunStart& start = {});

}  // namespace rlreplay::replay
