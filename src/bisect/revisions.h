#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/interrupt.h"
#include "src/bisect/dumps.h"
#include "src/bisect/git.h"
#include "src/bisect/outcome.h"
#include "src/bisect/runner.h"
#include "src/bisect/verdict.h"
#include "src/replay/compare/dumps_difference.h"

namespace rlreplay::bisect {

/// One revision that was judged, by a run or by that of another revision with the same content.
struct Trial {
  Revision revision;
  Judgement judgement;
  double seconds = 0;
  bool cached = false;
};

/// What a search over revisions found.
struct Finding {
  enum class Result { kFound, kNothing, kCannotJudge };
  Result result = Result::kCannotJudge;
  std::string reason;  // why, unless found

  Revision good, bad;              // the ends
  size_t revisions = 0;            // from the first after the good end to the bad end
  std::vector<Trial> trials;       // in their order, confirmations last
  std::vector<Revision> suspects;  // oldest first: the culprit, or those that skips cannot part
  std::optional<Revision> parent;  // of the first suspect: the last good one
  bool confirmed = false;          // the last suspect and the parent were the same in all runs
  size_t culprit_runs = 0, parent_runs = 0;        // then: in how many
  size_t not_run = 0;                              // revisions that no run judged
  std::optional<Outcome::Kind> evidence;           // what was compared
  std::optional<Judgement> culprit;                // the last suspect's, in the last of its runs
  std::optional<replay::DumpsDifference> drilled;  // of the dumps of the two `sides`
  std::pair<std::string, std::string> sides = {"parent", "culprit"};
  std::string undrilled;  // why not, where they left dumps
};

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
[[nodiscard]] Finding find_revision(const RevisionQuestion& question, const Interrupt& interrupt,
                                    const Listener& listener);

}  // namespace rlreplay::bisect
