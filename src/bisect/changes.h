#pragma once

#include "src/bisect/history_search.h"

namespace rlreplay::bisect {

/// A revision whose run differs from that of the revision before it.
struct Change {
  std::vector<Revision> suspects;  // oldest first: one, or those that skips leave
  Judgement judgement;             // of the last of them, with the revision before as the reference
};

/// What a row of revisions changed, as far as runs saw it.
struct Changes {
  std::string refused = {};  // why nothing was looked for, or nothing of it stands
  bool cut = false;          // whether that is --max-runs: `found` is what was found until then
  bool fresh = false;        // whether no run was stored, by which the search could go on
  std::vector<Change> found = {};
  std::vector<Trial> trials = {};
  size_t revisions = 0, not_run = 0;
  std::string noise = {};  // how far runs of one revision lie apart
  Revision good = {}, bad = {};
};

/// Finds every place at which the run changes: where two revisions differ, the middle between them
/// is run, and so on; where they agree, nothing is taken to have changed between them. Both ends
/// are run `plan.end_runs` times first; where runs of one differ, what tells the ends apart
/// decides, and what noise may be is no change. Errors: those of the sampler but kLimit, which is
/// an answer.
[[nodiscard]] Changes find_changes(const std::vector<Revision>& history, const SearchPlan& plan,
                                   Sampler& sampler, const CandidateOf& candidate_of,
                                   const Listener& listener);

}  // namespace rlreplay::bisect
