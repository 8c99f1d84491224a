#pragma once

#include <span>
#include <vector>

#include "src/objective/advantage.h"
#include "src/objective/batch_objective.h"

/// The objective of binary64 inputs, as a record may hold them. Those of an engine are binary32,
/// and its functions are these, of inputs that binary64 holds exactly.
namespace rlreplay::engine {

using WideToken = TokenNumbers<double>;

/// As the functions of the same names in token_objective.h.
[[nodiscard]] SequenceTerms sequence_terms(const ObjectiveConfig& config,
                                           std::span<const WideToken> sample);
[[nodiscard]] TokenTerms token_objective(const ObjectiveConfig& config, const WideToken& token,
                                         const SequenceTerms& sequence);

/// old - current log-probability, as a step's records have it: GSPO's is the sample's mean.
[[nodiscard]] double policy_kl(const ObjectiveConfig& config, const WideToken& token,
                               const SequenceTerms& sequence);

/// Adds a token's part to its sample's losses.
void add(Losses& to, const TokenTerms& token, double entropy, double weight);

/// What advantages read of SampleTargets.
struct WideTargets {
  std::vector<double> old_log_probs, ref_log_probs, values, teacher_log_probs, reverse_kl;
};

/// As compute_returns in advantage.h.
[[nodiscard]] Returns compute_returns(const AdvantageConfig& config,
                                      std::span<const Sample> samples,
                                      std::span<const double> rewards,
                                      std::span<const WideTargets> targets,
                                      std::span<const size_t> rewarded);

/// Distillation: what a sample's advantages lose of its tokens' reverse KL, which is the recorded
/// one, or else of the teacher; without its coefficient nothing. Shapes: all of the response.
void charge_reverse_kl(const AdvantageConfig& config, const WideTargets& targets,
                       std::vector<double>& advantages);

}  // namespace rlreplay::engine
