#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/interrupt.h"
#include "src/bisect/changes.h"
#include "src/bisect/finding.h"
#include "src/bisect/history_search.h"
#include "src/bisect/runner.h"

namespace rlreplay::bisect {

/// Between which revisions of which repository, how they are run, and what decides.
struct RevisionQuestion {
  std::string repository;
  std::string good, bad;  // names of commits
  Recipe recipe;
  SearchPlan plan;
  std::vector<std::string> paths = {};  // outside of which nothing matters; empty: all does
  std::map<std::string, std::string> dependencies = {};  // clones of submodules, by their paths
  std::optional<std::string> log = {};     // of git bisect: its verdicts, and ends where none are
  std::optional<std::string> output = {};  // a folder that keeps what the runs wrote
  std::vector<std::string> words = {};     // of the command, by which `resume` finds it
  size_t most_runs = std::numeric_limits<size_t>::max();
  bool fresh = false;  // whether what is stored counts for nothing
};

/// How many runs a search makes.
struct Forecast {
  size_t revisions = 0;                // from the first after the good end to the bad end
  size_t most = 0;                     // runs, stored ones among them
  std::string condition = {};          // under which they are the most; empty: none
  std::optional<double> seconds = {};  // of a run of the good end, where one is stored
};

/// Errors: as of find_revision.
[[nodiscard]] Forecast forecast(const RevisionQuestion& question, const Interrupt& interrupt);
[[nodiscard]] Forecast forecast_changes(const RevisionQuestion& question,
                                        const Interrupt& interrupt);

/// Finds the first bad revision on the first-parent history, or in what was merged there. Both ends
/// are run first, more than once so that a run that is not deterministic is noticed; the culprit
/// and its parent are run more than once before it is named; where their dumps part is asked by
/// compare_dumps. What searches that were killed have left is removed first. Errors: kUsage for
/// ends that are no range, kInterrupted, and those of git and of runs.
[[nodiscard]] Finding find_revision(const RevisionQuestion& question, const Interrupt& interrupt,
                                    const Listener& listener);

/// Finds every revision along first parents at which the run changes. Errors: the same.
[[nodiscard]] Changes find_changes(const RevisionQuestion& question, const Interrupt& interrupt,
                                   const Listener& listener);

/// Compares two dumps that were recorded to their end, as `rlreplay diff` does. Nothing is run.
/// Errors: kIncomplete, those of the format.
[[nodiscard]] replay::DumpsDifference compare_dumps(const std::string& a, const std::string& b,
                                                    const replay::ElementFinder& find_element);

}  // namespace rlreplay::bisect
