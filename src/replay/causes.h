#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/replay/recorded_run.h"

/// Why two runs differ, in the order in which one thing causes the next: options, program and
/// machine, contract, the state before the first step, data. Events come after these
/// (run_difference.h).
namespace rlreplay::replay {

struct Cause {
  std::string kind;  // "options", "program", "contract", "state", "data"
  std::string text;  // "lr: 1e-04 -> 2e-04"
};

/// What differs of two dumps up to a step, its own data included.
std::vector<Cause> find_causes(const RecordedRun& a, const RecordedRun& b, const StepId& until);

/// What differs of a record and a replay of it by this program.
std::vector<Cause> find_causes(const RecordedRun& record, const RunOptions& replay);

/// Whether samples or rewards, and so what steps are given, differ.
bool data_differs(const std::vector<Cause>& causes);

/// A line each, at most `most` of a kind; the name of a kind before its first. Empty without any.
std::string causes_text(const std::vector<Cause>& causes, size_t most);

/// [{"kind": ..., "text": ...}, ...]
std::string causes_json(const std::vector<Cause>& causes);

}  // namespace rlreplay::replay
