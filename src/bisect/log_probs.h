#pragma once

#include <optional>

#include "src/bisect/verdict.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::bisect {

inline constexpr const char* kForwardLogpMaxDiff = "forward_logp_max_diff";

/// The largest distance between the log-probabilities of the same response tokens, step by step, in
/// the forward passes of two dumps with the same steps. Steps from the first rollout on whose
/// tokens differ are no longer compared.
[[nodiscard]] Judgement judge_log_probs(const Criterion& criterion,
                                        const replay::RecordedRun& reference,
                                        const replay::RecordedRun& dump);

}  // namespace rlreplay::bisect
