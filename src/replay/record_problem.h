#pragma once

#include <string>

namespace rlreplay::replay {

/// Something recorded that contradicts something else that was recorded.
struct RecordProblem {
  std::string code, unit, dataset, message;
};

}  // namespace rlreplay::replay
