#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "format/dump_reader.h"

/// Which units of a dump hold the events of a rollout or a step.
namespace rlreplay::replay {

/// Whether the group has events at all.
[[nodiscard]] bool has_events(const format::UnitReader& unit, const std::string& group);

/// The units that hold events of a rollout's or a step's group, by rank.
/// Errors: FormatError kMeaning where two of one rank do.
[[nodiscard]] std::map<int64_t, format::UnitReader> event_units(const format::DumpReader& dump,
                                                                const char* kind,
                                                                const std::string& group);

/// The units that hold events of a group, by rank, among units that are open.
/// Errors: FormatError kMeaning where two of one rank do.
[[nodiscard]] std::map<int64_t, const format::UnitReader*> event_units(
    std::span<const format::UnitReader> units, const std::string& group);

/// The only one of them, for whoever compares a run of one rank; nothing where there is none.
/// Errors: those of event_units; kUnsupported where several ranks have events.
[[nodiscard]] std::optional<format::UnitReader> open_events(const format::DumpReader& dump,
                                                            const char* kind,
                                                            const std::string& group);

}  // namespace rlreplay::replay
