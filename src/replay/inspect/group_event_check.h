#pragma once

#include <functional>
#include <string>
#include <vector>

#include "format/rollout_data.h"
#include "format/train_data.h"
#include "src/base/parameters.h"
#include "src/base/thread_pool.h"
#include "src/events/event_record.h"
#include "src/events/event_rows.h"

namespace rlreplay::replay {

/// The events of one group of one unit, and what was recorded beside them.
struct GroupEvents {
  const engine::StepEvents& events;
  const std::vector<engine::SampleShape>* shapes;  // of the samples; null where not known
  const format::RolloutData* rollout;              // null where there is none
  const format::TrainData* train;                  // of a step; null for a rollout's events
};

using EventReport = std::function<void(const std::string& dataset, const std::string& message)>;

/// Holds the events of a group against one another and against columns and scalars, and reports
/// what contradicts. Returns what could not be checked.
[[nodiscard]] std::vector<std::string> check_group_events(const GroupEvents& group,
                                                          const ModelConfig& model,
                                                          const ParameterTable& parameters,
                                                          ThreadPool& pool,
                                                          const EventReport& report);

}  // namespace rlreplay::replay
