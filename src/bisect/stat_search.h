#pragma once

#include "src/bisect/history_search.h"

namespace rlreplay::bisect {

/// Finds the revision with which the distribution of a run's value changes, the value being one
/// recorded number (its mean over the steps) or the exit code, good or bad. Runs go where they say
/// most, until one revision holds `plan.confidence` of the probability.
/// Errors: those of the sampler but kLimit, which is a finding; kUsage where the runs leave more
/// than one number that counts.
[[nodiscard]] Finding find_change(const std::vector<Revision>& history, const SearchPlan& plan,
                                  Sampler& sampler, const CandidateOf& candidate_of,
                                  const Listener& listener);

}  // namespace rlreplay::bisect
