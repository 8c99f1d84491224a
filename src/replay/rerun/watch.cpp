#include "src/replay/rerun/watch.h"

#include "kernels/order.h"
#include "src/base/error.h"
#include "src/base/layout.h"

namespace rlreplay::replay {

void BothSinks::rows(const engine::Event& event, const engine::EventView& values,
                     const engine::RowCoordinates& coordinates) {
  for (engine::EventSink* sink : {&first_, &second_}) {
    if (sink->wants(event)) sink->rows(event, values, coordinates);
  }
}

void BothSinks::whole(const engine::Event& event, const engine::EventView& values) {
  for (engine::EventSink* sink : {&first_, &second_}) {
    if (sink->wants(event)) sink->whole(event, values);
  }
}

void BothSinks::restart() {
  first_.restart();
  second_.restart();
}

Watch::Watch(const RunOptions& options, const ReplayPlan& plan, Trainer& trainer, ThreadPool& pool)
    : plan_(plan),
      recording_(trainer.backend().config(), trainer.backend().parameters(), kernels::kTokenLeaf,
                 engine::parse_record_options(options.record), pool) {
  if (!plan.injection) return;
  injecting_.emplace(*plan.injection, trainer.backend().config(), trainer.backend().parameters(),
                     parse_layout(options.layout), &recording_);
}

/// An observer sees the first step that is taken, and in that step nothing is planted.
engine::EventSink* Watch::begin(int64_t rollout, int64_t step, std::span<const Sample> samples) {
  both_.reset();
  if (plan_.observer != nullptr && !observed_) {
    observed_ = true;
    both_.emplace(recording_, *plan_.observer);
    return &*both_;
  }
  if (!injecting_) return &recording_;
  injecting_->begin(rollout, step, engine::sample_shapes(samples));
  return &*injecting_;
}

void Watch::check_planted() const {
  if (!injecting_ || injecting_->planted()) return;
  std::string why = ": nothing was planted, the run has no such event or never reached its element";
  if (plan_.injection->rank)
    why += ", or another rank holds it: without @RANK every copy is changed";
  throw Error(ErrorCode::kUsage, "--inject " + to_string(*plan_.injection) + why);
}

}  // namespace rlreplay::replay
