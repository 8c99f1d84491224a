#pragma once

#include <span>
#include <vector>

#include "src/base/sample.h"
#include "src/objective/token_objective.h"

/// From rewards to per-token advantages, in binary64 on the host.
namespace rlreplay::engine {

/// From rewards to advantages (docs/numerics.md section 6).
/// Source: slime, slime/utils/ppo_utils.py (get_grpo_returns, get_reinforce_plus_plus_returns,
/// get_reinforce_plus_plus_baseline_advantages). Shao et al., DeepSeekMath (2024): kGrpo. Schulman
/// et al., High-dimensional continuous control using generalized advantage estimation (2015): kPpo.
enum class Estimator {
  kGrpo,  // GSPO's and CISPO's too: they differ in the policy loss alone
  kReinforcePlusPlus,
  kReinforcePlusPlusBaseline,
  kPpo,
  kPolicyGradient
};

/// By which estimator, and in whose dialect, rewards become advantages.
struct AdvantageConfig {
  Estimator estimator = Estimator::kGrpo;
  Dialect dialect = Dialect::kSlime;
  bool normalize_rewards = true;      // subtract the group's mean
  bool normalize_std = true;          // and, for GRPO, divide by its deviation (ddof 1) + 1e-6
  bool normalize_advantages = false;  // whiten over the batch's unmasked tokens
  double kl_coef = 0;                 // KL against the reference in the reward; not read by GRPO
  KlType kl_type = KlType::kK1;
  double gamma = 1;  // discount, of REINFORCE++ and GAE
  double lambda = 1;
  std::optional<double> opd_kl_coef;  // on-policy distillation
  int64_t announced_samples = 0;      // of a rollout, as its options say; 0: they do not
  int64_t group_size = 1;             // of these

  /// Whether the estimator has a use for a group: else rewards stay as they are.
  [[nodiscard]] bool compares_rewards() const {
    return estimator == Estimator::kGrpo || estimator == Estimator::kReinforcePlusPlusBaseline;
  }
  /// Whether rewards are shaped by their groups.
  [[nodiscard]] bool shapes_rewards() const { return normalize_rewards && compares_rewards(); }
  /// Whether the reward is charged with a KL.
  [[nodiscard]] bool reads_kl() const { return kl_coef != 0 && estimator != Estimator::kGrpo; }
};

/// The reward of each sample as its advantage begins: less the group's mean and over its deviation
/// where the configuration asks for them. Under Miles a trajectory's samples share one reward,
/// which counts once; slime looks at the number of samples alone where a trajectory has several: of
/// as many as are announced, `group_size` are a group, in the order of their ids, else all. Order:
/// chains over a group's samples (trajectories, by their first samples) by ascending id; the mean
/// is the first reward plus the mean distance from it, so that equal rewards give exactly 0; where
/// that is not finite, the rewards' sum over their number.
/// Errors: kUsage where Miles' samples of one trajectory have several rewards.
[[nodiscard]] std::vector<double> shaped_rewards(const AdvantageConfig& config,
                                                 std::span<const Sample> samples);

/// The samples whose rewards are shaped together, as indices; none where rewards stay as they are.
[[nodiscard]] std::vector<std::vector<size_t>> reward_groups(const AdvantageConfig& config,
                                                             std::span<const Sample> samples);

/// A value for each response token of each sample.
using TokenValues = std::vector<std::vector<double>>;

/// From shaped rewards to returns, and to advantages before whitening. Numbers that are not finite
/// are passed on.
/// `rewarded`: of slime's GAE, the token that each sample's reward is given to, none beyond the
/// last one; empty: the last one. Order: REINFORCE++ and GAE are chains from a sample's last token
/// to its first. Errors: kUsage where a column that the configuration reads is missing, and for
/// REINFORCE++ where a sample is masked throughout.
struct Returns {
  TokenValues returns, advantages;
};
[[nodiscard]] Returns compute_returns(const AdvantageConfig& config,
                                      std::span<const Sample> samples,
                                      std::span<const double> rewards,
                                      std::span<const SampleTargets> targets,
                                      std::span<const size_t> rewarded = {});

/// Values less the unmasked ones' mean, over their deviation (ddof 1; one token alone: ddof 0).
/// Order: chains in binary64 over samples by ascending id, tokens ascending; the mean is the first
/// value plus the mean distance from it. Errors: kUsage where every token is masked.
void whiten(std::span<const Sample> samples, TokenValues& values);

/// Sets targets[i].advantages from shaped rewards; the other targets are read where the
/// configuration asks for them. Each advantage is rounded to binary32 once.
/// Errors: those of the functions above; kUsage for an advantage that is not finite (a group of one
/// under slime's deviation).
void set_advantages(const AdvantageConfig& config, std::span<const Sample> samples,
                    std::span<const double> rewards, std::span<SampleTargets> targets);

/// Sets targets[i].advantages from the samples' own rewards, which are shaped first. Errors: as
/// above; kUsage for a reward that is no finite binary32.
void set_advantages(const AdvantageConfig& config, std::span<const Sample> samples,
                    std::span<SampleTargets> targets);

}  // namespace rlreplay::engine
