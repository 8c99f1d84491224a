#pragma once

#include "src/replay/compare/step_difference.h"
#include "src/replay/options/options.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::replay {

/// Says of a replay in a layout which ranks' numbers differ from the record's: a replay's events
/// come together in rank 0, which need not be who computed them.
void name_ranks(const RecordedRun& record, const RunOptions& replayed, StepDifference& difference);

}  // namespace rlreplay::replay
