#pragma once

#include "src/replay/doctor/diagnosis.h"
#include "src/replay/doctor/weight_files.h"

namespace rlreplay::replay {

/// All rules on a checkpoint; findings in the order in which causes stand before symptoms.
/// Errors: kCorrupt where a file was changed meanwhile.
[[nodiscard]] Diagnosis diagnose(const WeightFiles& weights);

}  // namespace rlreplay::replay
