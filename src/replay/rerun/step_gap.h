#pragma once

#include <cstddef>
#include <cstdint>

#include "src/replay/record/recorded_run.h"

namespace rlreplay::replay {

/// Sees that the steps of a record from place `first` to `last` follow one another in its run:
/// whoever takes them one after the other cannot reach a step behind one that is not there. Errors:
/// kIncomplete, naming the step that is missing and whose parts of it are not there.
void check_no_gap(const RecordedRun& record, size_t first, size_t last);

/// Sees that all steps of a rollout are there, where its run took any: the weights behind it are
/// what they leave. Errors: as above.
void check_trained(const RecordedRun& record, int64_t rollout);

}  // namespace rlreplay::replay
