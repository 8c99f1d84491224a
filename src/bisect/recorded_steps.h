#pragma once

#include <string>
#include <vector>

#include "src/bisect/metrics.h"
#include "src/replay/record/recorded_run.h"

/// What a search reads of a dump. Errors: also those of the format.
namespace rlreplay::bisect {

/// Errors: kIncomplete when the dump was not recorded to its end.
replay::RecordedRun open_ended(const std::string& path);

/// A dump whose steps are judged. Errors: also kIncomplete when it holds none, kUnsupported for one
/// of several ranks.
replay::RecordedRun open_whole(const std::string& path);

/// The events of a step; before those of a rollout's first step, the rollout's.
engine::StepEvents events_of(const replay::RecordedRun& run, const replay::StepId& step);

/// The scalars of all steps, by name.
std::vector<Metric> scalars_of(const replay::RecordedRun& run);

/// What a rollout's tokens are known by; empty when they were not recorded.
std::string tokens_hash(const replay::RecordedRun& run, int64_t rollout_id);

}  // namespace rlreplay::bisect
