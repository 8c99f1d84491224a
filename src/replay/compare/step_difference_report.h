#pragma once

#include <span>
#include <string>
#include <string_view>

#include "src/replay/compare/causes.h"
#include "src/replay/compare/step_difference.h"

namespace rlreplay::replay {

/// How long a report is. kBrief: about 14 lines, within another report. kShort: about 20. kAll:
/// with every cause, every event, and how many floats lie how far apart.
enum class ReportLength { kBrief, kShort, kAll };

/// What a report says beside the events.
struct ReportOptions {
  std::vector<Cause> causes = {};  // what else differs: it comes first
  std::string note = {};           // how the element was found, or why it was not
  ReportLength length = ReportLength::kShort;
};

/// The divergence report for people: where two records part, both values and how far they lie
/// apart, what differs after it. `name_a`, `name_b`: what the sides are called. `command` shows the
/// report again and is its last line.
[[nodiscard]] std::string step_difference_report(const StepDifference& difference,
                                                 std::string_view name_a, std::string_view name_b,
                                                 std::string_view command,
                                                 const ReportOptions& options = {});

/// In one line: `2.0/backward/0/down/dx, sample 129, token 1, column 82 (index 1234), rank 0,
/// +3.64e-12, 8.8e-08 of it, 1 ulp up`
[[nodiscard]] std::string origin_line(const Origin& origin);

/// `origin` and `fields` of the programs' JSON (null, and an array).
[[nodiscard]] std::string origin_json(const std::optional<Origin>& origin);
[[nodiscard]] std::string fields_json(std::span<const EventDifference> events);

/// One line: rlreplay.replay.diff/1 with `identical`, `causes`, `origin`, `note` and `fields`.
[[nodiscard]] std::string to_json(const StepDifference& difference,
                                  const ReportOptions& options = {});

}  // namespace rlreplay::replay
