#pragma once

#include <cstdint>
#include <vector>

#include "format/dump_reader.h"
#include "format/foreign/tree_check.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::replay {

/// What the values of a dump contradict: bad-token, too-long, bad-mask, non-finite (also of
/// rewards) and bad-log-prob (of tokens with loss mask 1), prompt-value, sample-unknown (a step
/// trains on a sample that its rollout does not have), and all that the reading of its rollouts and
/// steps refuses: prompt-mismatch, length-mismatch, token-mismatch, replica-mismatch (ranks that
/// hold the same sample and differ), rollout-mismatch (what a trainer repeats of the rollout),
/// not-readable, not-replayable. At most 100 of a rollout. To `notes`, where there are any: what it
/// did not judge. Errors: FormatError where a unit is not sound.
[[nodiscard]] std::vector<foreign::Problem> audit_values(const RecordedRun& run,
                                                         std::vector<std::string>* notes = nullptr);

/// What ranks may say differently, and do: a sentence for each step.
std::vector<std::string> notes_of(const RecordedRun& run);

}  // namespace rlreplay::replay
