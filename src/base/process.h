#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace rlreplay {

struct ProcessLimits {
  std::chrono::milliseconds time{600'000};
  size_t max_output = size_t{64} << 20;
};

/// How a program ended, and what it said.
struct ProcessResult {
  enum class End { kExit, kSignal, kTimeout, kTooMuchOutput };
  End end = End::kExit;
  int code = 0;            // the exit code, or the signal
  std::string output;      // its standard output
  std::string error_tail;  // the last bytes of its standard error

  /// "exited with code 3: LAST LINES"; printable characters only.
  std::string describe() const;
};

/// Runs a shell command with `input` on its standard input, reading and writing at the same time.
/// When the command ends, or a limit is reached, all processes of its group are killed and it is
/// reaped.
/// Errors: kEnvironment when no process can be started.
ProcessResult run_process(const std::string& command, std::string_view input,
                          const ProcessLimits& limits = {});

}  // namespace rlreplay
