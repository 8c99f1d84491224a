#pragma once

#include <vector>

#include "src/base/thread_pool.h"
#include "src/replay/record_problem.h"
#include "src/replay/recorded_run.h"

namespace rlreplay::replay {

/// Holds the events of every rollout and step against one another and against the columns and
/// scalars beside them: rows against samples, digests against row digests, values and columns,
/// statistics against values. Dumps that do not say of which model they are have no events.
std::vector<RecordProblem> check_events(const RecordedRun& record, ThreadPool& pool);

}  // namespace rlreplay::replay
