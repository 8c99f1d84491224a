#pragma once

#include <string>

#include "src/bisect/configuration.h"
#include "src/replay/measure/judgement.h"

namespace rlreplay::bisect {

/// Two configurations, and what decides whether their runs of one checkout differ.
struct Comparison {
  std::string words;  // of the command line: A..B
  Configuration first, second;
  measure::Criterion criterion;
};

}  // namespace rlreplay::bisect
