#pragma once

#include "src/replay/doctor/diagnosis.h"
#include "src/replay/doctor/weight_files.h"

namespace rlreplay::replay {

/// All rules on a checkpoint; findings in the order in which causes stand before symptoms.
/// `reference`: the checkpoint that it is held against, or null.
/// Errors: kCorrupt where a file was changed meanwhile.
[[nodiscard]] Diagnosis diagnose(const WeightFiles& weights, const WeightFiles* reference);

}  // namespace rlreplay::replay
