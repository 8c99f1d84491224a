#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/engine/sample.h"

/// The per-token objective: policy loss, KL and entropy with their gradient, in binary32 by the
/// contract's functions; sums over tokens in binary64.
namespace rlreplay::engine {

/// Where slime and Miles differ: Miles zeroes masked and non-finite log-ratios and clamps them and
/// the KL's difference to +-20.
enum class Dialect { kSlime, kMiles };
enum class PolicyLoss { kClip, kPlain };       // PPO's clip, or -A log p
enum class KlType { kK1, kK2, kK3, kLowVar };  // low_var: k3 clamped to +-10
enum class Reducer { kSampleMean, kTokenMean };

/// Truncated importance sampling against the rollout's log-probabilities.
struct Tis {
  float low = 0;
  float high = 2;
};

struct ObjectiveConfig {
  Dialect dialect = Dialect::kSlime;
  PolicyLoss policy_loss = PolicyLoss::kClip;
  Reducer reducer = Reducer::kSampleMean;
  float eps_clip = 0.2f;
  float eps_clip_high = 0.2f;
  std::optional<float> eps_clip_c;  // dual clip, above 1
  float kl_loss_coef = 0;
  KlType kl_loss_type = KlType::kK1;
  float entropy_coef = 0;
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
  float weight = 0;  // w_t: 0 where masked
  bool masked = false;
};

/// Its terms, and what the log-probability's backward takes: c = -dL/dlog_prob,
/// ce = entropy_coef w_t.
struct TokenTerms {
  float ratio = 1;
  float policy = 0;
  float kl = 0;
  float total = 0;
  bool clipped = false;
  float c = 0;
  float ce = 0;
};

/// Rounding: as written in objective.cpp, every operation once in binary32.
TokenTerms token_objective(const ObjectiveConfig& config, const TokenInput& token);

/// KL estimate of one token from d = log_prob - ref_log_prob, and its derivative by d.
struct Kl {
  float value = 0;
  float derivative = 0;
};
Kl kl_estimate(KlType type, Dialect dialect, float log_prob, float ref_log_prob);

/// w_t of every sample's tokens: 1 / (D_i N) or 1 / sum D_i, rounded once from binary64; D_i =
/// max(sum of the sample's mask, 1), N = samples of the global batch.
std::vector<float> sample_weights(Reducer reducer, std::span<const Sample> samples);

/// The loss weight W that sets the scale of the gradient sums (docs/numerics.md section 2).
double total_loss_weight(const ObjectiveConfig& config, std::span<const Sample> samples,
                         std::span<const SampleTargets> targets, std::span<const float> weights);

}  // namespace rlreplay::engine
