#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "src/base/interrupt.h"
#include "src/base/process.h"
#include "src/bisect/comparison.h"
#include "src/bisect/workspace.h"
#include "src/replay/measure/measurement.h"

namespace rlreplay::bisect {

/// How a checkout is built and run: commands of the shell.
struct Recipe {
  std::string build = {};  // empty: nothing is to be built
  std::string run = {};
  std::string launch = {};  // a command that puts `run` on a scheduler's machines; empty: here
  std::optional<Comparison> comparison = {};  // whose runs of each checkout are compared
  std::string overlay = {};  // a folder whose files are laid over each checkout; empty: none
  std::chrono::milliseconds time_limit = ProcessLimits::kNoTime;  // of each of them
  bool log_probs = false;  // whether those of a dump are wanted
};

/// One run: of which checkout, and what its commands are told.
struct RunPlace {
  std::string checkout = {};
  std::string revision = {};       // empty where there is none
  std::string reference = {};      // the good end's output; empty before there is one
  std::string configuration = {};  // the file of settings; empty: none
  RunFolder folder = {};
};

/// Builds a checkout; a measurement, which names the log, where that fails. Its standard input is
/// empty, here and below; what it says goes to the log.
/// Errors: kInterrupted.
[[nodiscard]] std::optional<measure::Measurement> build_checkout(const Recipe& recipe,
                                                                 const RunPlace& place,
                                                                 Workspace& workspace,
                                                                 const Interrupt& interrupt);

/// Runs a checkout that is built and reads what it left.
/// Errors: kInterrupted.
/// Of a comparison: exit code 1, and the reason as the problem, where its runs differ, else 0.
[[nodiscard]] measure::Measurement run_checkout(const Recipe& recipe, const RunPlace& place,
                                                Workspace& workspace, const Interrupt& interrupt);

}  // namespace rlreplay::bisect
