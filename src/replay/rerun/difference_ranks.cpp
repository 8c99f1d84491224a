#include "src/replay/rerun/difference_ranks.h"

#include "src/engine/element_ranks.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/run/run_config.h"

namespace rlreplay::replay {
namespace {

/// Numbers of an event as far as a difference knows them.
engine::EventNumbers numbers_of(const engine::Event& event,
                                const std::optional<engine::Element>& row,
                                const std::optional<EventDifference::Value>& value) {
  if (value) return {event, value->at, true};
  return {event, row, false};
}

}  // namespace

void name_ranks(const RecordedRun& record, const RunOptions& replayed, StepDifference& difference) {
  const Layout layout = parse_layout(replayed.layout);
  if (layout.ranks() == 1 || !difference.origin) return;
  Origin& origin = *difference.origin;
  const StepId id{origin.rollout_id, origin.step_id};
  std::vector<engine::SampleShape> samples;
  for (const RecordedStep& step : read_recorded_rollout(record, id.rollout).steps) {
    if (step.id == id) samples = engine::sample_shapes(step.samples);
  }
  const ModelConfig model = record.config().model;
  const engine::DealtStep dealt{model, layout, step_config(replayed).train.leaf, samples};
  const auto name = [&](int& rank, const engine::EventNumbers& numbers) {
    const std::vector<int> ranks = engine::ranks_of(dealt, numbers);
    if (!ranks.empty()) rank = ranks.front();
    return static_cast<int>(ranks.size());
  };
  origin.ranks = name(origin.rank, numbers_of(origin.event, origin.row, origin.value));
  for (EventDifference& d : difference.events) {
    std::optional<engine::Element> row;
    if (!d.rows.empty()) row = d.rows.front();
    static_cast<void>(name(d.rank, numbers_of(d.event, row, d.first)));
  }
}

}  // namespace rlreplay::replay
