#pragma once

#include <string>

#include "src/replay/difference_report.h"

namespace rlreplay::bisect {

/// Where two dumps part.
struct DumpDifference {
  replay::StepDifference step;   // the first step that differs; identical where none does
  size_t compared = 0;           // steps, that one included
  replay::ReportOptions report;  // causes, and how the element was found
  std::string beyond;            // which dump has steps that the other one lacks; empty: neither

  bool identical() const { return step.identical() && beyond.empty(); }
};

/// Compares the recorded events of two dumps, step by step, and stops at the first that differs.
/// Nothing is run.
/// Errors: kIncomplete for a dump without events, those of the format.
DumpDifference compare_dumps(const std::string& a, const std::string& b);

}  // namespace rlreplay::bisect
