#pragma once

#include <vector>

#include "src/base/thread_pool.h"
#include "src/replay/record/record_problem.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::replay {

/// Compares the digests of every recorded state, differences applied, with those in the record of
/// the step before it, and the counter of steps with its place in the run. A state that a replay
/// could not load is a problem too; the dump must say of which model they are.
[[nodiscard]] RecordFindings check_states(const RecordedRun& record, ThreadPool& pool);

}  // namespace rlreplay::replay
