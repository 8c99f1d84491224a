#pragma once

#include <string>

#include "src/bisect/revisions.h"
#include "src/replay/compare/step_difference_report.h"

namespace rlreplay::bisect {

/// What was found, to be pasted into an issue: ends with the command that shows it again.
[[nodiscard]] std::string report_text(const RevisionQuestion& question, const Finding& finding,
                                      replay::ReportLength length);

/// One object of the schema rlreplay.bisect/1.
[[nodiscard]] std::string report_json(const RevisionQuestion& question, const Finding& finding);

/// Two dumps: what was compared where they are identical, else the divergence report. `command`
/// shows it again.
[[nodiscard]] std::string dumps_text(const replay::DumpsDifference& difference,
                                     const std::string& name_a, const std::string& name_b,
                                     const std::string& command, replay::ReportLength length);

/// A judgement of `rlbisect verdict`: one object of the schema rlreplay.verdict/1.
[[nodiscard]] std::string verdict_json(const Judgement& judgement);

}  // namespace rlreplay::bisect
