#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rlreplay {

/// A program to run.
struct Command {
  /// The program, which is looked for in PATH, and its arguments. No shell sees them.
  std::vector<std::string> arguments;
  /// Where it runs; empty: where this process does.
  std::string folder = {};
  /// What its environment has that this process's has not; nothing: this variable is left out.
  std::vector<std::pair<std::string, std::optional<std::string>>> environment = {};
  /// A new file that takes its standard output and standard error; empty: the result takes them.
  std::string log = {};
};

/// `text` as a command of the shell.
Command shell_command(std::string text);

struct ProcessLimits {
  static constexpr std::chrono::milliseconds kNoTime = std::chrono::hours(24 * 36500);

  std::chrono::milliseconds time{600'000};
  size_t max_output = size_t{64} << 20;
  /// A descriptor: the program is stopped when it becomes readable.
  int stop_fd = -1;
};

/// How a program ended, and what it said.
struct ProcessResult {
  enum class End { kExit, kSignal, kTimeout, kTooMuchOutput, kStopped };
  End end = End::kExit;
  int code = 0;            // the exit code, or the signal
  std::string output;      // its standard output, unless a log took it
  std::string error_tail;  // the last bytes of its standard error, or of its log

  /// "exited with code 3: LAST LINES"; printable characters only.
  std::string describe() const;
};

/// Runs a program with `input` on its standard input, reading and writing at the same time.
/// When the program ends, or a limit is reached, all processes of its group are killed and it is
/// reaped.
/// Errors: kEnvironment when no process can be started or its log cannot be written.
ProcessResult run_process(const Command& command, std::string_view input,
                          const ProcessLimits& limits = {});

}  // namespace rlreplay
