#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "src/base/interrupt.h"
#include "src/bisect/git.h"
#include "src/bisect/runner.h"
#include "src/bisect/workspace.h"
#include "src/replay/measure/executor.h"

namespace rlreplay::bisect {

/// Settings of a candidate that is a commit of a submodule: of which path, in which revision of the
/// repository, and from which clone.
inline constexpr const char *kDependency = "dependency", *kOuter = "outer", *kClone = "clone";

/// Checks revisions out in worktrees, builds and runs them. With a build command all runs of one
/// revision that follow each other have one worktree and build, unless a fresh one is asked for;
/// without one each has its own worktree.
class RevisionExecutor : public measure::Executor {
 public:
  /// `reference_of` says what the good end left; empty before there is something.
  RevisionExecutor(const Repository& repository, const Recipe& recipe, Workspace& workspace,
                   const Interrupt& interrupt, std::function<std::string()> reference_of);

  measure::Measurement measure(const measure::Candidate& candidate, measure::Build build) override;

 private:
  std::optional<measure::Measurement> prepare(const measure::Candidate& candidate,
                                              const RunPlace& place);

  void say_empty(const std::set<std::string>& submodules);

  const Repository& repository_;
  const Recipe& recipe_;
  Workspace& workspace_;
  const Interrupt& interrupt_;
  std::function<std::string()> reference_of_;
  std::optional<Worktree> worktree_;  // that of the last run, where its build can be used again
  std::string revision_, build_;      // of it
  size_t builds_ = 0;
  std::set<std::string> empty_;  // submodules of which it was said
};

}  // namespace rlreplay::bisect
