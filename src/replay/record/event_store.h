#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/dataset.h"
#include "format/dump_reader.h"
#include "src/events/event_record.h"

/// Recorded events into a unit of a dump and back: a few flat arrays, however many tensors there
/// are (format/SPEC.md, events).
namespace rlreplay::replay {

/// The datasets of a group (`3` of a rollout unit, `3-0` of a train unit). They own their values.
[[nodiscard]] std::vector<format::Dataset> event_datasets(const engine::StepEvents& events,
                                                          const std::string& group);

/// Reads them back, those of another table than ours as named events. Errors: FormatError kMeaning
/// where the arrays do not agree with one another.
[[nodiscard]] engine::StepEvents read_events(const format::DumpReader& dump,
                                             const format::UnitReader& unit,
                                             const std::string& group, int64_t rollout_id,
                                             int64_t step_id);

}  // namespace rlreplay::replay
