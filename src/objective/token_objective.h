#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

/// The per-token objective: policy loss, KL and entropy with their gradient. Everything is computed
/// in binary64 from binary32 log-probabilities: a loss is a sum of terms of both signs that nearly
/// cancel, and the digits that their own rounding took would be the first to show.
namespace rlreplay::engine {

/// Where slime and Miles differ: Miles zeroes masked and non-finite log-ratios, advantages that are
/// not finite and a KL in the loss that is not finite in binary32, and clamps log-ratios, and the
/// difference of low_var alone, to +-20. There an infinity is 20 and a NaN 0, in the reward too.
/// Source: slime, slime/utils/ppo_utils.py (compute_approx_kl) and backends/megatron_utils/loss.py;
/// Miles, miles/backends/training_utils/loss_hub/math_utils.py (_LOG_RATIO_EXP_CLAMP) and
/// losses.py; at the commits that src/replay/launch/launch_flags.inc names.
enum class Dialect { kSlime, kMiles };
enum class PolicyLoss {
  kClip,      // PPO's clip of each token's ratio
  kPlain,     // -A log p
  kSequence,  // GSPO: the clip of one ratio for the whole sample
  kCispo,     // -A log p times the clipped ratio, which is a constant
};
enum class KlType { kK1, kK2, kK3, kLowVar };  // low_var: k3 clamped to +-10
enum class Reducer { kSampleMean, kTokenMean };

/// Truncated importance sampling against the rollout's log-probabilities.
struct Tis {
  double low = 0;
  double high = 2;
};

/// Which losses are summed up in a step, in whose dialect, and how their tokens are weighed.
struct ObjectiveConfig {
  Dialect dialect = Dialect::kSlime;
  PolicyLoss policy_loss = PolicyLoss::kClip;
  Reducer reducer = Reducer::kSampleMean;
  double eps_clip = 0.2;
  double eps_clip_high = 0.2;
  std::optional<double> eps_clip_c;  // dual clip, above 1
  bool kl_loss = false;              // computed even where the coefficient is 0
  double kl_loss_coef = 0;
  KlType kl_loss_type = KlType::kK1;
  bool unbiased_kl = false;  // times the ratio
  double entropy_coef = 0;
  std::optional<Tis> tis;
  /// OPSM: a negative advantage counts as 0 in samples whose old log-probabilities exceed the
  /// policy's by more than this, in the mean.
  std::optional<double> opsm_delta;

  [[nodiscard]] bool reads_reference() const { return kl_loss || kl_loss_coef != 0; }
  /// Whether a token's terms depend on its whole sample.
  [[nodiscard]] bool reads_sequence() const {
    return policy_loss == PolicyLoss::kSequence || opsm_delta.has_value();
  }
};

/// One response token's numbers.
template <class Real>
struct TokenNumbers {
  Real log_prob = 0;
  Real entropy = 0;
  Real old_log_prob = 0;
  Real ref_log_prob = 0;
  Real rollout_log_prob = 0;
  Real advantage = 0;
  double weight = 0;  // w_t: 0 where masked
  bool masked = false;
};
using TokenInput = TokenNumbers<float>;

/// The terms of a response token, and what the log-probability's backward takes: c = -dL/dlog_prob,
/// ce = entropy_coef w_t.
struct TokenTerms {
  double ratio = 1;
  double policy = 0;
  double kl = 0;
  double total = 0;
  bool clipped = false;
  float c = 0;
  float ce = 0;
};

/// What the objective of a token reads of its whole sample.
struct SequenceTerms {
  double log_ratio = 0;   // mean of log_prob - old_log_prob over the unmasked tokens; 0 without any
  double derivative = 0;  // GSPO's policy term by each unmasked log-probability
};

/// The terms of one sample, from all its response tokens in order; zeros where nothing reads them.
/// Order: chains in binary64 over ascending unmasked tokens, then one division.
[[nodiscard]] SequenceTerms sequence_terms(const ObjectiveConfig& config,
                                           std::span<const TokenInput> sample);

/// The terms of one token. Derivatives at a kink are those of the side without the clip.
/// Source: Schulman et al., Proximal policy optimization algorithms (2017): kClip. Zheng et al.,
/// Group sequence policy optimization (2025): kSequence. MiniMax-M1 (2025): kCispo.
/// Rounding: as written in token_objective.cpp, every operation once in binary64; c and ce once
/// more, to binary32.
[[nodiscard]] TokenTerms token_objective(const ObjectiveConfig& config, const TokenInput& token,
                                         const SequenceTerms& sequence = {});

/// The objective of all tokens of one sample.
[[nodiscard]] std::vector<TokenTerms> sample_objective(const ObjectiveConfig& config,
                                                       std::span<const TokenInput> sample);

/// The advantage that the policy loss takes.
[[nodiscard]] double policy_advantage(Dialect dialect, double advantage);

/// A KL estimate and its derivative.
struct Kl {
  double value = 0;
  double derivative = 0;
};

/// KL estimate of one token from `difference`, log_prob - ref_log_prob, times `ratio` where it is
/// unbiased, and its derivative by log_prob (of which the ratio's logarithm is the other part). Of
/// infinities the value is what the frameworks' own sums give: k3 of -inf is NaN.
/// Source: Schulman, Approximating KL divergence, joschu.net/blog/kl-approx.html (2020).
[[nodiscard]] Kl kl_of_difference(KlType type, Dialect dialect, double difference,
                                  std::optional<double> ratio = {});

/// PPO's value loss of one token: the larger square of the value's and the clipped value's distance
/// from the return.
struct ValueTerms {
  double loss = 0;
  double derivative = 0;  // by the value
  bool clipped = false;
};
[[nodiscard]] ValueTerms value_objective(double clip, double value, double old_value,
                                         double target);

}  // namespace rlreplay::engine
