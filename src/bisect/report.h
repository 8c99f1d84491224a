#pragma once

#include <string>

#include "src/bisect/revisions.h"

namespace rlreplay::bisect {

/// What was found, to be pasted into an issue: ends with the command that shows it again.
std::string report_text(const RevisionQuestion& question, const Finding& finding);

/// One object of the schema rlreplay.bisect/1.
std::string report_json(const RevisionQuestion& question, const Finding& finding);

/// Two dumps: the divergence report, and one object of the schema rlreplay.diff/1. `command` shows
/// the difference again.
std::string dumps_text(const DumpDifference& difference, const std::string& name_a,
                       const std::string& name_b, const std::string& command);
std::string dumps_json(const DumpDifference& difference, const std::string& command);

/// A judgement of `rlbisect verdict`: one object of the schema rlreplay.verdict/1.
std::string verdict_json(const Judgement& judgement);

}  // namespace rlreplay::bisect
