#pragma once

#include <cstdint>
#include <vector>

#include "format/held_bytes.h"
#include "format/train_ranks.h"
#include "src/replay/record/rank_scalars.h"
#include "src/replay/record/record_refusal.h"
#include "src/replay/record/recorded_run.h"
#include "src/replay/record/step_member.h"

/// The ranks of a step, and what they may not say differently.
namespace rlreplay::replay {

using StepRank = format::TrainRank;

/// The scalars of a step, joined over its ranks (join_scalars).
[[nodiscard]] StepScalars scalars_of(const std::vector<StepRank>& ranks);

/// Sees that ranks say the same where they may not say differently, beside the samples' own columns
/// (format/SPEC.md, train).
/// Errors: RecordRefusal, where `guard` throws them.
void check_step_ranks(const RecordedRun& run, const StepId& step,
                      const std::vector<StepRank>& ranks, const RefusalGuard& guard);

/// `from`, of a later rank, joins what the ranks before said of its sample.
/// Errors: RecordRefusal where they say it differently.
void join_members(const RecordedRun& run, const StepId& step, StepMember& to, StepMember&& from);

}  // namespace rlreplay::replay
