#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/bisect/git.h"
#include "src/bisect/search_result.h"
#include "src/replay/compare/dumps_difference.h"
#include "src/replay/measure/judgement.h"
#include "src/replay/measure/measurement.h"

namespace rlreplay::bisect {

using measure::Criterion;
using measure::Judgement;
using measure::Verdict;

/// Why a revision is judged.
enum class Purpose { kGoodEnd, kBadEnd, kSearch, kProbe, kConfirmation };

[[nodiscard]] std::string_view to_string(Purpose purpose);

/// Where its measurement comes from.
enum class Origin { kRun, kStored, kEqualContent };

/// One revision that was judged.
struct Trial {
  Revision revision;
  Judgement judgement;
  Purpose purpose = Purpose::kSearch;
  Origin origin = Origin::kRun;
  double seconds = 0;
  std::string date = {};  // of the measurement
};

/// What a search over revisions found.
struct Finding {
  SearchResult result = SearchResult::kCannotJudge;
  std::string reason = {};  // why, unless found
  bool cut = false;         // whether more runs than are allowed would have been needed

  Revision good = {}, bad = {};              // the ends
  std::vector<Revision> history = {};        // along first parents, from the one to the other
  size_t revisions = 0;                      // behind the good end, and in branches entered
  std::vector<Trial> trials = {};            // in their order
  std::vector<Revision> suspects = {};       // oldest first: the culprit, or those that skips leave
  std::optional<Revision> parent = {};       // of the first suspect: the last good one
  bool confirmed = false;                    // the last suspect and the parent were always the same
  size_t culprit_runs = 0, parent_runs = 0;  // then: in how many runs
  size_t not_run = 0;                        // revisions that no run judged
  std::vector<Trial> contradictions = {};    // bad before the parent, or good behind the culprit
  std::vector<Pin> pins = {};                // versions of others that the culprit changed
  std::string dependency = {};        // the submodule that was searched; empty: the repository
  std::vector<Finding> inside = {};   // of submodules whose pin the culprit changed
  std::string inside_note = {};       // why one was not searched
  std::vector<Revision> merges = {};  // into which the search went down, outermost first
  std::string merge_note = {};        // why it did not, of a culprit that is a merge
  std::optional<measure::Evidence> evidence = {};  // what was compared
  std::pair<std::vector<measure::Metric>, std::vector<measure::Metric>> metrics =
      {};                                   // of the good end and the culprit
  std::optional<double> confidence = {};    // of a search in noise: that it is one of them
  std::optional<Criterion> criterion = {};  // which noise has made of what was asked for
  std::string noise = {};                   // how far runs of one revision lie apart
  std::optional<Judgement> culprit = {};    // the last suspect's, in the last of its runs

  std::optional<replay::DumpsDifference> drilled = {};  // of the dumps of the two `sides`
  std::pair<std::string, std::string> sides = {"parent", "culprit"};
  std::pair<std::string, std::string> dumps = {};  // of the two sides; empty where there are none
  std::string undrilled = {};                      // why not, where they left dumps

  /// Whether the reason holds a text already.
  [[nodiscard]] bool says(const std::string& text) const {
    return reason.find(text) != reason.npos;
  }
};

}  // namespace rlreplay::bisect
