#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/bisect/drill_down.h"
#include "src/bisect/git.h"
#include "src/bisect/outcome.h"
#include "src/bisect/verdict.h"

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

}  // namespace rlreplay::bisect
