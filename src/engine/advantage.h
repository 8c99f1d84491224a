#pragma once

#include <span>
#include <vector>

#include "src/engine/objective.h"
#include "src/engine/sample.h"

/// From rewards to per-token advantages, in binary64 on the host.
namespace rlreplay::engine {

enum class Estimator { kGrpo, kReinforcePlusPlusBaseline, kPolicyGradient };

struct AdvantageConfig {
  Estimator estimator = Estimator::kGrpo;
  Dialect dialect = Dialect::kSlime;
  bool normalize_rewards = true;      // subtract the group's mean
  bool normalize_std = true;          // and, for GRPO, divide by its deviation (ddof 1) + 1e-6
  bool normalize_advantages = false;  // whiten over the batch's unmasked tokens
  double kl_coef = 0;                 // KL against the reference in the reward; not read by GRPO
  KlType kl_type = KlType::kK1;
};

/// The reward of each sample as its advantage begins: less the group's mean and over its deviation
/// where the configuration asks for them.
/// Order: chains over a group's samples by ascending id; the mean is the first reward plus the mean
/// distance from it, so that equal rewards give exactly 0.
std::vector<double> shaped_rewards(const AdvantageConfig& config, std::span<const Sample> samples);

/// Sets targets[i].advantages from the samples' rewards; old and reference log-probabilities are
/// read where kl_coef asks for them.
/// Order: chains in binary64 over samples by ascending id, tokens ascending; a mean is the first
/// value plus the mean distance from it; each advantage is rounded to binary32 once.
/// Errors: kUsage for a reward or an advantage that is not finite (a group of one under slime's
/// deviation), for whitening where every token is masked, and where kl_coef lacks
/// log-probabilities.
void set_advantages(const AdvantageConfig& config, std::span<const Sample> samples,
                    std::span<SampleTargets> targets);

}  // namespace rlreplay::engine
