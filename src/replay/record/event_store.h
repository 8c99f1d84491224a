#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/dataset.h"
#include "format/dump_reader.h"
#include "src/events/event_record.h"

/// Recorded events into a unit of a dump and back: a few flat arrays, however many tensors there
/// are (format/SPEC.md, events).
namespace rlreplay::replay {

/// The datasets of a group (`3` of a rollout unit, `3-0` of a train unit). They own their values.
std::vector<format::Dataset> event_datasets(const engine::StepEvents& events,
                                            const std::string& group);

/// Whether the group has events at all.
[[nodiscard]] bool has_events(const format::UnitReader& unit, const std::string& group);

/// The units that hold events of a rollout's or a step's group, by rank.
/// Errors: FormatError kMeaning where two of one rank do.
std::map<int64_t, format::UnitReader> event_units(const format::DumpReader& dump, const char* kind,
                                                  const std::string& group);
/// Of units that are open.
std::map<int64_t, const format::UnitReader*> event_units(std::span<const format::UnitReader> units,
                                                         const std::string& group);

/// The only one of them, for whoever compares a run of one rank; nothing where there is none.
/// Errors: those of event_units; kUnsupported where several ranks have events.
std::optional<format::UnitReader> open_events(const format::DumpReader& dump, const char* kind,
                                              const std::string& group);

/// Reads them back, those of another table than ours as named events. Errors: FormatError kMeaning
/// where the arrays do not agree with one another.
[[nodiscard]] engine::StepEvents read_events(const format::DumpReader& dump,
                                             const format::UnitReader& unit,
                                             const std::string& group, int64_t rollout_id,
                                             int64_t step_id);

}  // namespace rlreplay::replay
