#pragma once

#include <chrono>
#include <string>

#include "src/base/interrupt.h"
#include "src/base/process.h"
#include "src/bisect/outcome.h"
#include "src/bisect/workspace.h"

namespace rlreplay::bisect {

/// How a checkout is built and run: commands of the shell.
struct Recipe {
  std::string build;  // empty: nothing is to be built
  std::string run;
  std::chrono::milliseconds time_limit = ProcessLimits::kNoTime;  // of each of them
};

/// One run: of which checkout, and what its commands are told.
struct RunPlace {
  std::string checkout;
  std::string revision;   // empty where there is none
  std::string reference;  // the good end's output; empty before there is one
  RunFolder folder;
};

/// Builds and runs a checkout. Its standard input is empty; what it says goes to the logs. A build
/// or run that fails is an outcome, and its problem names the log.
/// Errors: kInterrupted.
Outcome run_recipe(const Recipe& recipe, const RunPlace& place, Workspace& workspace,
                   const Interrupt& interrupt);

}  // namespace rlreplay::bisect
