#pragma once

#include <string>
#include <vector>

#include "src/replay/verbs/run_flags.h"

namespace rlreplay::replay {

/// The words of `rlreplay capture`.
struct CaptureArguments {
  RunFlags flags;
  std::string wrap;                  // slime or miles; empty: a run of our own
  std::vector<std::string> command;  // that is wrapped
  std::string output;
  bool resume = false;
  bool check = false;
  bool force = false;
  bool json = false;
  bool dry_run = false;
};

/// Runs what the options say and records it, or goes on with it. Returns the exit code.
[[nodiscard]] int capture_run(const CaptureArguments& arguments);

/// Goes on with the run of a dump that has not its end. Returns the exit code.
[[nodiscard]] int capture_resume(const CaptureArguments& arguments);

}  // namespace rlreplay::replay
