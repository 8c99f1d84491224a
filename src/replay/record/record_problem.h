#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/first_problems.h"

namespace rlreplay::replay {

/// Something recorded that contradicts something else that was recorded.
struct RecordProblem {
  std::string code, unit, dataset, message;
  std::optional<uint64_t> sample = {};
};

using RecordProblems = FirstProblems<RecordProblem>;

/// What a check of a record found, and a sentence for each thing that it could not check.
struct RecordFindings {
  std::vector<RecordProblem> problems;
  std::vector<std::string> not_checked;
};

}  // namespace rlreplay::replay
