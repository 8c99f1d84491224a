#pragma once

#include <chrono>
#include <string>

#include "src/replay/gate/left_dump.h"
#include "src/replay/gate/outcome.h"
#include "src/replay/measure/measurement.h"

namespace rlreplay::gate {

/// Whether a run ended otherwise than with 0. With 1 it may where it left a whole dump: so
/// `rlreplay train DUMP` says that it found a difference.
[[nodiscard]] bool has_failed(const measure::Measurement& measurement);

/// The values of a run that a golden file keeps: every number to the bit, digests of weights and of
/// inputs, the content root of a dump.
/// Errors: kUsage for a run that left nothing but its exit code, kIncomplete for one that failed
/// after it left numbers.
[[nodiscard]] GoldenEntries values_of(const measure::Measurement& measurement);

/// What a command left, and how it ended. Its files are there as long as somebody holds the folder.
struct CommandRun {
  measure::Measurement measurement;
  LeftDump dump = {};
  std::string ended = {};                              // "exited with code 3: LAST WORDS"
  std::string log = {};                                // a file, what it printed (BoundedLog)
  std::shared_ptr<const TemporaryFolder> folder = {};  // where that lies
};

/// Runs a command of the shell in a folder, empty: the working one, with RLBISECT_OUT naming an
/// empty one to leave things in, and reads what it left, as `rlbisect --run` does.
/// Errors: kEnvironment.
[[nodiscard]] CommandRun run_command(const std::string& command,
                                     std::chrono::milliseconds time_limit,
                                     const std::string& in = {});

}  // namespace rlreplay::gate
