#pragma once

#include <optional>

#include "src/events/recording_sink.h"
#include "src/replay/rerun/replay.h"

namespace rlreplay::replay {

/// The sinks of a replay: a recording one, and one that plants a difference before it looks.
class Watch {
 public:
  Watch(const RunOptions& options, const ReplayPlan& plan, Trainer& trainer, ThreadPool& pool);

  engine::EventSink* begin(int64_t rollout, int64_t step, std::span<const Sample> samples);
  engine::StepEvents finish(int64_t rollout, int64_t step) {
    return recording_.finish(rollout, step);
  }
  /// Errors: kUsage where a difference was to be planted and its element never passed by.
  void check_planted() const;

 private:
  const ReplayPlan& plan_;
  engine::RecordingSink recording_;
  std::optional<InjectingSink> injecting_;
};

}  // namespace rlreplay::replay
