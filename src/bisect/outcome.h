#pragma once

#include <string>
#include <vector>

#include "src/base/process.h"
#include "src/bisect/metrics.h"

namespace rlreplay::bisect {

/// What a run left behind, by the contract of a `--run` command.
struct Outcome {
  enum class Kind { kNothing, kExitCode, kMetrics, kDump };
  Kind kind = Kind::kNothing;
  std::string problem = {};          // kNothing: why
  int exit_code = 0;                 // 0 or 1, where the run came to its end
  std::vector<Metric> metrics = {};  // kMetrics
  std::string dump = {};             // kDump: its folder
};

/// `a dump`, `metrics.json`, ...
std::string to_string(Outcome::Kind kind);

/// What a run that has ended left in its output folder. Exit code 1 with an uncaught exception of
/// Python as last words is a crash and no verdict.
[[nodiscard]] Outcome read_outcome(const ProcessResult& run, const std::string& output);

/// What lies at a path: a metrics file, a dump, or an output folder with one of them.
/// Errors: kIncomplete when there is none of these.
[[nodiscard]] Outcome read_recorded(const std::string& path);

}  // namespace rlreplay::bisect
