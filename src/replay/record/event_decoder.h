#pragma once

#include <cstdint>

#include "format/group_io.h"
#include "src/events/event_record.h"
#include "src/replay/record/event_columns.h"

/// Recorded arrays of events into events.
namespace rlreplay::replay {

/// The events that the arrays hold; `phase`: of events that are not ours.
/// Errors: FormatError kMeaning, told of `reader`'s group, where arrays contradict one another.
[[nodiscard]] engine::StepEvents decode_events(const format::GroupReader& reader,
                                               const EventColumns& columns, engine::Phase phase,
                                               int64_t rollout_id, int64_t step_id);

}  // namespace rlreplay::replay
