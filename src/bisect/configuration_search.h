#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "src/base/interrupt.h"
#include "src/bisect/configuration.h"
#include "src/bisect/delta_debugging.h"
#include "src/bisect/runner.h"
#include "src/bisect/search_result.h"
#include "src/replay/measure/judgement.h"

namespace rlreplay::bisect {

/// Which of the settings in which two configurations differ make their runs differ.
struct ConfigurationQuestion {
  Configuration good, bad;
  Recipe recipe;     // without `run`, `from` is replayed
  std::string from;  // a dump
  measure::Criterion criterion;
  size_t end_runs = 2, side_runs = 2;
  size_t most_runs = std::numeric_limits<size_t>::max();
  std::optional<std::string> output = {};
  bool quiet = false;  // whether progress is left out
};

/// What came of the search; where it is not kFound, `reason` says why.
struct ConfigurationFinding {
  SearchResult result = SearchResult::kCannotJudge;
  std::string reason = {};
  std::vector<KeyDifference> differences = {};
  std::vector<Subset> causes = {};        // minimal sets of differences
  std::vector<std::string> reasons = {};  // what each of them does
  size_t unresolved = 0, runs = 0;
};

/// Runs both ends as often as is asked, then subsets of the differences (delta_debugging.h), and
/// each cause once more. Errors: kUsage where nothing differs, kInterrupted, those of runs.
[[nodiscard]] ConfigurationFinding find_configuration(const ConfigurationQuestion& question,
                                                      const Interrupt& interrupt);

/// A line a cause. `command` shows it again.
[[nodiscard]] std::string configuration_text(const ConfigurationFinding& finding,
                                             const std::string& command);

/// One object of the schema rlreplay.configurations/1.
[[nodiscard]] std::string configuration_json(const ConfigurationFinding& finding,
                                             const std::string& command);

}  // namespace rlreplay::bisect
