#pragma once

#include <cstdint>
#include <vector>

#include "format/dump_reader.h"
#include "format/foreign/tree_check.h"
#include "src/replay/inspect/unread_rollouts.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::replay {

/// What the values of a dump contradict: bad-token, too-long, bad-mask, non-finite (also of
/// rewards) and bad-log-prob (of tokens with loss mask 1), prompt-value, sample-unknown (a step
/// trains on a sample that its rollout does not have), and all that the reading of its rollouts and
/// steps refuses: prompt-mismatch, length-mismatch, token-mismatch, replica-mismatch (ranks that
/// hold the same sample and differ), rollout-mismatch (what a trainer repeats of the rollout),
/// not-readable, not-replayable. At most 100 of a rollout. To `notes`, where there are any: what it
/// did not judge. `unread`: rollouts that are passed over, to which it adds what it cannot read.
/// Errors: without `unread`, FormatError where a unit is not sound, and those of reading.
[[nodiscard]] std::vector<foreign::Problem> audit_values(const RecordedRun& run,
                                                         std::vector<std::string>* notes = nullptr,
                                                         UnreadRollouts* unread = nullptr);

}  // namespace rlreplay::replay
