#pragma once

#include "src/replay/doctor/diagnosis.h"
#include "src/replay/doctor/weight_files.h"
#include "src/replay/doctor/weight_versions.h"

namespace rlreplay::replay {

/// All rules on a checkpoint; findings in the order in which causes stand before symptoms.
/// `versions`: what it is held against, or null.
/// Errors: kCorrupt where a file was changed meanwhile; those of WeightVersions.
[[nodiscard]] Diagnosis diagnose(const WeightFiles& weights, WeightVersions* versions);

}  // namespace rlreplay::replay
