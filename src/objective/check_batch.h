#pragma once

#include <span>

#include "src/base/sample.h"
#include "src/objective/token_objective.h"

namespace rlreplay::engine {

/// Refuses a batch whose step would not be what was asked for: nothing is filled in or left out.
/// Masked tokens are not looked at, for nothing of theirs is read. Old log-probabilities may be
/// missing from all samples, but not from some.
/// Errors: kUsage for ids that occur twice, masks other than 0 and 1, and columns that the
/// objective reads but that are missing or of another length than the response; kCorrupt for values
/// that are not finite (under Miles an old log-probability may be infinite, whose rule gives it the
/// ratio 1, and an advantage may be anything: it is then 0).
void check_batch(const ObjectiveConfig& config, std::span<const Sample> samples,
                 std::span<const SampleTargets> targets);

/// Errors: kCorrupt for a log-probability or an entropy of an unmasked token that is not finite.
void check_scores(const Sample& sample, std::span<const float> log_probs,
                  std::span<const float> entropy);

}  // namespace rlreplay::engine
