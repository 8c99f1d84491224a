#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "src/base/golden_file.h"
#include "src/replay/gate/left_dump.h"
#include "src/replay/gate/tolerance.h"

namespace rlreplay::gate {

/// How a commit is built and run, from the root of its checkout or a folder in it.
struct CommitRecipe {
  std::string commit, build, run;        // without a build it is run as it is checked out
  std::chrono::milliseconds time_limit;  // of each of them
};

/// What a commit gives here, and why there is nothing.
struct CommitRun {
  std::optional<GoldenEntries> values = {};
  std::string problem = {};
  LeftDump dump = {};
};

/// Checks the commit out of the repository that a folder lies in, into a folder of its own, builds
/// it there and runs it twice, in the folder that is now the working one. No hook is run.
/// Errors: kEnvironment.
[[nodiscard]] CommitRun run_commit(const std::vector<Tolerance>& tolerances,
                                   const CommitRecipe& recipe, const std::string& folder);

}  // namespace rlreplay::gate
