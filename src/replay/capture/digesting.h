#pragma once

#include "kernels/order.h"
#include "src/events/recording_sink.h"
#include "src/replay/capture/recorder.h"
#include "src/replay/run/run.h"

namespace rlreplay::replay {

/// Completes the outcome of each step with the digests of its state; those of the torch kernels
/// stay empty: their events are not the contract's.
class DigestingObserver : public RunObserver {
 public:
  DigestingObserver(const RunOptions& options, Trainer& trainer, ThreadPool& pool)
      : portable_(options.kernels == "portable"),
        sink_(trainer.backend().config(), trainer.backend().parameters(), kernels::kTokenLeaf, {},
              pool) {}

  engine::EventSink* step_sink(int64_t, int64_t, std::span<const Sample>) override {
    return portable_ ? &sink_ : nullptr;
  }
  void step(StepOutcome& outcome, std::span<const Sample>,
            std::span<const SampleTargets>) override {
    if (!portable_) return;
    outcome.digests = state_digests(sink_.finish(outcome.rollout_id, outcome.step_id));
  }

 private:
  bool portable_;
  engine::RecordingSink sink_;
};

}  // namespace rlreplay::replay
