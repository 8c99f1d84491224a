#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "src/replay/record/step_id.h"

namespace rlreplay::replay {

/// Steps of a run, both ends included.
struct RunPart {
  StepId first{0, 0}, last{INT64_MAX, 0};

  bool holds(const StepId& step) const { return first <= step && step <= last; }
};

/// Of which steps a dump is: `part` as dump_meta has it; all of the run where it is empty. "1.0.."
/// goes as far as the dump's own `steps` do. Errors: kCorrupt.
RunPart parse_part(const std::string& part, std::span<const StepId> steps);

}  // namespace rlreplay::replay
