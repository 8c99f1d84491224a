#pragma once

#include <optional>

#include "src/events/recording_sink.h"
#include "src/replay/rerun/replay.h"

namespace rlreplay::replay {

/// Shows events to two, to the first before the second.
class BothSinks : public engine::EventSink {
 public:
  BothSinks(engine::EventSink& first, engine::EventSink& second) : first_(first), second_(second) {}
  [[nodiscard]] bool wants(const engine::Event& event) const override {
    return first_.wants(event) || second_.wants(event);
  }
  void rows(const engine::Event& event, const engine::EventView& values,
            const engine::RowCoordinates& coordinates) override;
  void whole(const engine::Event& event, const engine::EventView& values) override;
  void restart() override;

 private:
  engine::EventSink& first_;
  engine::EventSink& second_;
};

/// The sinks of a replay: a recording one, and one that plants a difference before it looks.
class Watch {
 public:
  Watch(const RunOptions& options, const ReplayPlan& plan, Trainer& trainer, ThreadPool& pool);

  engine::EventSink* begin(int64_t rollout, int64_t step, std::span<const Sample> samples);
  engine::StepEvents finish(int64_t rollout, int64_t step) {
    return recording_.finish(rollout, step);
  }
  /// Sees that a difference was planted where the plan has one.
  /// Errors: kUsage where a difference was to be planted and its element never passed by.
  void check_planted() const;

 private:
  const ReplayPlan& plan_;
  engine::RecordingSink recording_;
  std::optional<InjectingSink> injecting_;
  std::optional<BothSinks> both_;  // while the observed step runs
  bool observed_ = false;
};

}  // namespace rlreplay::replay
