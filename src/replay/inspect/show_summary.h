#pragma once

#include <string>

#include "format/dump_reader.h"

namespace rlreplay::replay {

/// What a dump holds: a table of its rollouts and one of its steps.
std::string summary_text(const format::DumpReader& dump, bool temporary);

/// The same: one object for the dump, one for each rollout and step.
/// `incomplete`: why the dump is not whole; empty where it is.
std::string summary_json(const format::DumpReader& dump, const std::string& incomplete);

}  // namespace rlreplay::replay
