#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/replay/launch/provenance.h"
#include "src/replay/record/recorded_run.h"

/// Why two runs differ, in the order in which one thing causes the next: options, program and
/// machine, contract, model; then what they were given (dump_causes.h). Events come after
/// these (run_difference.h).
namespace rlreplay::replay {

/// The longest label of a report's lines: their texts begin three columns behind it.
inline constexpr size_t kReportLabel = 11;

/// One thing that may be why two runs differ.
struct Cause {
  std::string kind;  // "options", "program", "contract", "model", "state", "data"
  std::string text;  // "lr: 1e-04 -> 2e-04"
};

/// `1 -> 2`, and `-` for what is not there.
[[nodiscard]] std::string change(const std::string& a, const std::string& b);

/// What two dumps say of their runs. Errors: FormatError, kCorrupt.
[[nodiscard]] std::vector<Cause> run_causes(const format::DumpReader& a,
                                            const format::DumpReader& b);

/// What differs of a record and a replay of it by this program, which computes with `computing`.
[[nodiscard]] std::vector<Cause> replay_causes(const RecordedRun& record, const RunOptions& replay,
                                               const Computing& computing);

/// Whether samples or rewards, and so what steps are given, differ.
[[nodiscard]] bool data_differs(const std::vector<Cause>& causes);

/// A line each after the name of their kind; of each kind as many as fit into about so many lines,
/// and how many more there are. Empty without any.
[[nodiscard]] std::string causes_text(const std::vector<Cause>& causes, size_t lines);

/// [{"kind": ..., "text": ...}, ...]
[[nodiscard]] std::string causes_json(const std::vector<Cause>& causes);

}  // namespace rlreplay::replay
