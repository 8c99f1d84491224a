#pragma once

#include "src/replay/measure/judgement.h"
#include "src/replay/measure/measurement.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::measure {

inline constexpr const char* kForwardLogpMaxDiff = "forward_logp_max_diff";

/// The log-probabilities of the forward pass of each step. Errors: those of the record.
[[nodiscard]] std::vector<StepLogProbs> read_log_probs(const replay::RecordedRun& run);

/// The hash of a rollout's tokens; empty where they were not recorded.
[[nodiscard]] std::string tokens_hash(const replay::RecordedRun& run, int64_t rollout);

/// The largest distance between the log-probabilities of the same response tokens, step by step, in
/// the forward passes of two runs with the same steps. Steps from the first rollout on whose tokens
/// differ are no longer compared.
[[nodiscard]] Judgement judge_log_probs(const Criterion& criterion, const Measurement& reference,
                                        const Measurement& measurement);

/// The largest of all steps; infinite where there is nothing to compare.
[[nodiscard]] double log_prob_distance(const Measurement& a, const Measurement& b);

}  // namespace rlreplay::measure
