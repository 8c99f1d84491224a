#pragma once

#include "src/base/thread_pool.h"
#include "src/replay/inspect/unread_rollouts.h"
#include "src/replay/record/record_problem.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::replay {

/// Holds the events of every rollout and step against one another and against the columns and
/// scalars beside them: rows against samples, digests against row digests, values and columns,
/// statistics against values; not of the rollouts of `unread` and their steps. Events of a dump
/// that names no model cannot be checked.
[[nodiscard]] RecordFindings check_events(const RecordedRun& record, const UnreadRollouts& unread,
                                          ThreadPool& pool);

}  // namespace rlreplay::replay
