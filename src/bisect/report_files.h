#pragma once

#include <string>

#include "src/bisect/revisions.h"

namespace rlreplay::bisect {

/// A report to be pasted into an issue: what was found, a table of what was run, the command.
[[nodiscard]] std::string report_markdown(const RevisionQuestion& question, const Finding& finding);

/// A report for CI: a test case for each revision that was judged, failed where it is bad, skipped
/// where it was skipped.
[[nodiscard]] std::string report_junit(const Finding& finding);

/// One page that needs nothing else: the strip of all revisions, the curve of the number that
/// differs, the runs, the report, the command.
[[nodiscard]] std::string report_html(const RevisionQuestion& question, const Finding& finding);

}  // namespace rlreplay::bisect
