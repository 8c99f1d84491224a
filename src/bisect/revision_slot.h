#pragma once

#include <mutex>
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

/// What all slots of a search have in common.
struct SlotGround {
  const Repository& repository;
  const Recipe& recipe;
  Workspace& workspace;
  const Interrupt& interrupt;
  std::mutex git = {};                    // one checkout at a time
  std::set<std::string> said_empty = {};  // submodules of which it was said
};

/// Checks one revision at a time out in a worktree of its own path, builds and runs it. With a
/// build command all runs of one revision that follow each other have one worktree and build,
/// unless a fresh one is asked for; without one each has its own worktree.
class RevisionSlot {
 public:
  RevisionSlot(SlotGround& ground, size_t number) : ground_(ground), number_(number) {}
  ~RevisionSlot();
  RevisionSlot(const RevisionSlot&) = delete;
  RevisionSlot& operator=(const RevisionSlot&) = delete;

  /// `reference`: what the good end left; empty before there is something.
  /// Errors: as of measure::Executor.
  [[nodiscard]] measure::Measurement measure(const measure::Candidate& candidate,
                                             measure::Build build, const std::string& reference);

 private:
  [[nodiscard]] std::optional<measure::Measurement> prepare(const measure::Candidate& candidate,
                                                            RunPlace& place);
  void check_out(const measure::Candidate& candidate);
  void remove();

  SlotGround& ground_;
  size_t number_, attempt_ = 0, builds_ = 0;
  std::optional<Worktree> worktree_;  // that of the last run, where its build can be used again
  std::string revision_, build_;      // of it
};

}  // namespace rlreplay::bisect
