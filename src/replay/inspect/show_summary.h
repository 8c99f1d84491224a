#pragma once

#include <iosfwd>
#include <string>

#include "format/dump_reader.h"

namespace rlreplay::replay {

/// What a dump holds: a table of its rollouts and one of its steps.
void print_summary(const format::DumpReader& dump, bool temporary, std::ostream& out);

/// What a dump holds as JSON, an object a line: one for the dump, one for each rollout and step.
/// `incomplete`: why the dump is not whole; empty where it is.
void print_summary_json(const format::DumpReader& dump, const std::string& incomplete,
                        std::ostream& out);

}  // namespace rlreplay::replay
