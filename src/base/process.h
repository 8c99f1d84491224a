#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace rlreplay {

/// A program to run.
struct Command {
  /// The program, which is looked for in PATH, and its arguments. No shell sees them.
  std::vector<std::string> arguments;
  /// Where it runs; empty: where this process does.
  std::string folder = {};
  /// What its environment has that this process's has not; nothing: this variable is left out.
  std::vector<std::pair<std::string, std::optional<std::string>>> environment = {};
  /// A new file for all that it prints (above 4 MiB both ends of it); empty: the result takes it.
  std::string log = {};
};

/// `text` as a command of the shell.
[[nodiscard]] Command shell_command(std::string text);

/// When a program is stopped: after `time`, or above `max_output` bytes of standard output.
struct ProcessLimits {
  static constexpr std::chrono::milliseconds kNoTime = std::chrono::hours(24 * 36500);

  std::chrono::milliseconds time{600'000};
  size_t max_output = size_t{64} << 20;
  /// A descriptor: the program is stopped when it becomes readable.
  int stop_fd = -1;
  /// When it is stopped it is sent SIGTERM first, and has so long to end what it has begun; the
  /// same where this process is gone. Zero: it is killed at once.
  std::chrono::milliseconds grace{0};
};

/// How a program ended, and what it said.
struct ProcessResult {
  enum class End { kExit, kSignal, kTimeout, kTooMuchOutput, kStopped };
  End end = End::kExit;
  int code = 0;            // the exit code, or the signal
  std::string output;      // its standard output, unless a log took it
  std::string error_tail;  // the last bytes of its standard error, or of its log

  [[nodiscard]] bool succeeded() const { return end == End::kExit && code == 0; }

  /// "exited with code 3: LAST LINES"; printable characters only.
  std::string describe() const;
};

/// Runs a program with `input` on its standard input, reading and writing at the same time. When it
/// ends or a limit is reached, all processes of its group are killed, and it is reaped.
/// Errors: kEnvironment when no process can be started or its log cannot be written.
[[nodiscard]] ProcessResult run_process(const Command& command, std::string_view input,
                                        const ProcessLimits& limits = {});

/// How a program is started beside what its command says.
struct SpawnOptions {
  /// Descriptors that become its standard streams; -1: it has this process's.
  std::array<int, 3> streams = {-1, -1, -1};
  /// Whether it leads a process group of its own.
  bool own_group = false;
  /// The signal that it gets when the thread that started it ends, however that happens; 0: none.
  int death_signal = 0;
};

/// Starts a program, which begins with no signal blocked, and with the usual answers to SIGPIPE,
/// SIGXFSZ and SIGCHLD. Returns its process id. Errors: kEnvironment when it cannot be started.
[[nodiscard]] pid_t spawn(const Command& command, const SpawnOptions& options);

}  // namespace rlreplay
