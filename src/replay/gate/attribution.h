#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "src/replay/gate/golden.h"

namespace rlreplay::gate {

/// Which of the two that changed since a golden file was recorded moved its values.
enum class Cause { kCode, kEnvironment, kBoth, kNotAttributed };

/// `code`, `environment`, `both`, `not attributed`.
std::string_view to_string(Cause cause);

struct Attribution {
  Cause cause = Cause::kNotAttributed;
  std::string reason;
};

/// `recorded`: the old code there; `now`: the code of now here; `old_here`: the old code here.
[[nodiscard]] Attribution attribute(const Golden& recorded, const GoldenEntries& now,
                                    const GoldenEntries& old_here);

/// How a commit is built and run, from the root of its checkout or a folder in it.
struct OldRecipe {
  std::string commit, build, run;
  std::chrono::milliseconds time_limit;  // of each of them
};

/// What a commit gives here, and why there is nothing.
struct OldRun {
  std::optional<GoldenEntries> values = {};
  std::string problem = {};
};

/// Checks the commit out of the repository that a golden file lies in, into a folder of its own,
/// builds it there and runs it twice in the folder that is now the working one. No hook is run.
/// Errors: kEnvironment.
[[nodiscard]] OldRun run_commit(const Golden& golden, const OldRecipe& recipe,
                                const std::string& path);

}  // namespace rlreplay::gate
