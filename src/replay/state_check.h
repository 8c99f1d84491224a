#pragma once

#include <string>
#include <vector>

#include "src/base/thread_pool.h"
#include "src/replay/recorded_run.h"

namespace rlreplay::replay {

/// A tensor of a recorded state that is not what the recorded step before it left.
struct StateProblem {
  std::string unit, dataset, message;
};

/// Compares the digests of every recorded state, differences applied, with those in the record of
/// the step before it. States that cannot be read, that no recorded step precedes, or whose dump
/// does not say of which model they are, are left out.
std::vector<StateProblem> check_states(const RecordedRun& record, ThreadPool& pool);

}  // namespace rlreplay::replay
