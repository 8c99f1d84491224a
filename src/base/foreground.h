#pragma once

#include <string>

#include "src/base/process.h"

namespace rlreplay {

/// How a program ended that had the terminal.
struct ForegroundEnd {
  bool killed = false;       // by a signal
  int code = 0;              // the exit code, or the signal
  bool interrupted = false;  // the user's signal came while it ran

  [[nodiscard]] bool well() const { return !killed && code == 0 && !interrupted; }
  /// "exit code 3", "signal 9 (Killed)".
  std::string describe() const;
};

/// Runs a program with this process's standard streams and environment, in which the command's
/// changes are made first, until it ends by itself. SIGINT, SIGTERM and SIGHUP do not end this
/// process meanwhile: the program and all that it has started get them, once; a second one kills
/// them, and what outlives the program then is killed, too. `command.log` is not looked at. Called
/// before the first thread. Errors: kEnvironment when it cannot be started.
[[nodiscard]] ForegroundEnd run_in_foreground(const Command& command);

}  // namespace rlreplay
