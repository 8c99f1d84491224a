#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/engine/sample.h"

/// The per-token objective: policy loss, KL and entropy with their gradient. Everything is computed
/// in binary64 from binary32 log-probabilities: a loss is a sum of terms of both signs that nearly
/// cancel, and the digits that their own rounding took would be the first to show.
namespace rlreplay::engine {

/// Where slime and Miles differ: Miles zeroes masked and non-finite log-ratios and clamps them and
/// the KL's difference to +-20.
enum class Dialect { kSlime, kMiles };
enum class PolicyLoss { kClip, kPlain };       // PPO's clip, or -A log p
enum class KlType { kK1, kK2, kK3, kLowVar };  // low_var: k3 clamped to +-10
enum class Reducer { kSampleMean, kTokenMean };

/// Truncated importance sampling against the rollout's log-probabilities.
struct Tis {
  double low = 0;
  double high = 2;
};

struct ObjectiveConfig {
  Dialect dialect = Dialect::kSlime;
  PolicyLoss policy_loss = PolicyLoss::kClip;
  Reducer reducer = Reducer::kSampleMean;
  double eps_clip = 0.2;
  double eps_clip_high = 0.2;
  std::optional<double> eps_clip_c;  // dual clip, above 1
  double kl_loss_coef = 0;
  KlType kl_loss_type = KlType::kK1;
  double entropy_coef = 0;
  std::optional<Tis> tis;
};

/// One response token's numbers.
struct TokenInput {
  float log_prob = 0;
  float entropy = 0;
  float old_log_prob = 0;
  float ref_log_prob = 0;
  float rollout_log_prob = 0;
  float advantage = 0;
  double weight = 0;  // w_t: 0 where masked
  bool masked = false;
};

/// Its terms, and what the log-probability's backward takes: c = -dL/dlog_prob,
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

/// Derivatives at a kink are those of the side without the clip.
/// Rounding: as written in objective.cpp, every operation once in binary64; c and ce once more, to
/// binary32.
TokenTerms token_objective(const ObjectiveConfig& config, const TokenInput& token);

/// KL estimate of one token from d = log_prob - ref_log_prob, and its derivative by d.
struct Kl {
  double value = 0;
  double derivative = 0;
};
Kl kl_estimate(KlType type, Dialect dialect, float log_prob, float ref_log_prob);

/// w_t of every sample's tokens: 1 / (D_i N) or 1 / sum D_i, in binary64; D_i =
/// max(sum of the sample's mask, 1), N = samples of the global batch.
std::vector<double> sample_weights(Reducer reducer, std::span<const Sample> samples);

/// The loss weight W that sets the scale of the gradient sums (docs/numerics.md section 2).
double total_loss_weight(const ObjectiveConfig& config, std::span<const Sample> samples,
                         std::span<const SampleTargets> targets, std::span<const double> weights);

}  // namespace rlreplay::engine
