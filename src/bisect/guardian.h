#pragma once

#include <chrono>
#include <string>

#include "src/base/process.h"

namespace rlreplay::bisect {

/// The word by which this program becomes a guardian.
inline constexpr const char* kGuardWord = "guard";

/// A command of the shell under a guardian, a process that ends all that the command leaves running
/// when it ends, when the guardian is told to (SIGTERM), and when this process is gone: what has
/// left its process group and session, too. All are sent SIGTERM, and SIGKILL `kGuardGrace` later.
[[nodiscard]] Command guarded_command(const std::string& text);

inline constexpr std::chrono::seconds kGuardGrace{2};

/// The guardian: runs its words as a program and ends as that does. For `rlbisect guard`.
[[nodiscard]] int guard(int argc, char** argv);

}  // namespace rlreplay::bisect
