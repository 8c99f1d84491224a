#pragma once

#include <CLI/App.hpp>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "src/bisect/history_search.h"
#include "src/bisect/verbs/common_options.h"
#include "src/replay/compare/step_difference_report.h"

namespace rlreplay::bisect {

/// The command line of `rlbisect` and of `rlbisect changes`.
struct SearchOptions {
  CommonOptions common;
  std::vector<std::string> ends;
  std::string repository = ".";
  size_t end_runs = SearchPlan().end_runs;
  size_t jobs = 1;
  size_t side_runs = SearchPlan().side_runs;
  std::optional<std::string> output;
  std::optional<double> confidence;
  std::vector<std::string> paths, dependencies;
  std::string overlay, from, differ;
  std::string markdown, junit, html;  // files for the report
  std::optional<std::string> log;
  bool changes = false;
  bool all = false;
  bool fresh = false, confirm_again = false, dry_run = false;
  size_t most_runs = std::numeric_limits<size_t>::max();
  std::vector<std::string> words;

  replay::ReportLength length() const {
    return all ? replay::ReportLength::kAll : replay::ReportLength::kShort;
  }
};

/// Those of `options.changes` where that is set. The footer and the names are the program's, too.
void add_search_options(CLI::App& app, SearchOptions& options);

}  // namespace rlreplay::bisect
