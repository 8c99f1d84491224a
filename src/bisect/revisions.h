#pragma once

#include <functional>
#include <optional>
#include <string>

#include "src/base/interrupt.h"
#include "src/bisect/finding.h"
#include "src/bisect/runner.h"
#include "src/bisect/verdict.h"
#include "src/replay/compare/dumps_difference.h"

namespace rlreplay::bisect {

/// Between which revisions of which repository, how they are run, and what decides.
struct RevisionQuestion {
  std::string repository;
  std::string good, bad;  // names of commits
  Recipe recipe;
  Criterion criterion;
  size_t end_runs = 2;                      // how often each end is run before the search
  size_t side_runs = 2;                     // how often culprit and parent are run in all, at least
  std::optional<std::string> output;        // a folder that keeps what the runs wrote
  replay::ElementFinder find_element = {};  // in the dumps that culprit and parent wrote
};

/// Told what goes on: that a run begins, with the number of runs that are left if none is skipped,
/// and that a revision is judged.
struct Listener {
  std::function<void(const Revision&, size_t left)> begin;
  std::function<void(const Trial&)> end;
};

/// Finds the first bad revision on the first-parent history. Both ends are run first, more than
/// once so that a run that is not deterministic is noticed; the culprit and its parent are run
/// more than once before it is named. What searches that were killed have left is removed first.
/// Errors: kUsage for ends that are no range, kInterrupted, and those of git and of runs.
Finding find_revision(const RevisionQuestion& question, const Interrupt& interrupt,
                      const Listener& listener);

}  // namespace rlreplay::bisect
