#pragma once

#include <CLI/App.hpp>
#include <string>

#include "src/bisect/runner.h"
#include "src/replay/measure/judgement.h"

/// Options of the search, of `changes` and of `verdict`.
namespace rlreplay::bisect {

/// How runs are made and judged, as the options say it.
struct CommonOptions {
  Recipe recipe;
  measure::Criterion criterion;
  double timeout = 0;  // seconds; 0: none
  bool json = false;
};

/// Adds the options that fill `options`, which outlives the app's reading.
void add_common_options(CLI::App& app, CommonOptions& options);

/// What CLI11 leaves to be done once the command line is read.
/// Errors: kUsage.
void settle(CommonOptions& options);

}  // namespace rlreplay::bisect
