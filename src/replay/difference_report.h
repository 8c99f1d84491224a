#pragma once

#include <span>
#include <string>
#include <string_view>

#include "src/replay/origin.h"

namespace rlreplay::replay {

/// The divergence report for people: where two records part, both values and how far they lie
/// apart, what differs after it. `name_a`, `name_b`: what the sides are called; `command`: what
/// shows it again, last line of the report.
std::string difference_report(const StepDifference& difference, std::string_view name_a,
                              std::string_view name_b, std::string_view command);

/// `origin` and `fields` of the programs' JSON (null, and an array).
std::string origin_json(const std::optional<Origin>& origin);
std::string fields_json(std::span<const EventDifference> events);

/// One line: rlreplay.diff/1 with `identical`, `origin` and `fields`.
std::string to_json(const StepDifference& difference);

}  // namespace rlreplay::replay
