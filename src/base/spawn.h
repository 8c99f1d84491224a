#pragma once

#include <array>

#include <sys/types.h>

#include "src/base/process.h"

namespace rlreplay {

/// How a program is started beside what its command says.
struct SpawnOptions {
  /// Descriptors that become its standard streams; -1: it has this process's.
  std::array<int, 3> streams = {-1, -1, -1};
  /// Whether it leads a process group of its own.
  bool own_group = false;
  /// What it gets when the thread that started it ends, however that happens.
  int death_signal = 0;
};

/// Starts a program, which begins with no signal blocked, and with the usual answers to SIGPIPE and
/// SIGXFSZ. Returns its process id. Errors: kEnvironment when it cannot be started.
pid_t spawn(const Command& command, const SpawnOptions& options);

}  // namespace rlreplay
