#pragma once

#include "src/base/golden.h"
#include "src/replay/trainer.h"

namespace rlreplay::replay {

/// Adds what a golden file keeps of a step: reward, loss and gradient norm to the bit, and the
/// digests where the outcome has them. Keys begin "step ROLLOUT.STEP ".
void add_golden(const StepOutcome& step, GoldenEntries& entries);

}  // namespace rlreplay::replay
