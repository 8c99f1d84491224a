#include "src/objective/token_objective.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/binary64.h"
#include "src/objective/wide_inputs.h"

namespace rlreplay::engine {
namespace {

namespace binary64 = kernels::binary64;

constexpr double kMilesLimit = 20;
constexpr double kLowVarLimit = 10;

/// A value and whether it moves with its argument.
struct Clamped {
  double value;
  bool inside;
};

/// Of bounds that are the wrong way round the upper one holds, as in torch.clamp.
Clamped clamp(double x, double low, double high) {
  if (x > high || low > high) return {high, false};
  if (x < low) return {low, false};
  return {x, true};
}

/// The policy's: Miles takes one that is not finite as 0, and bounds the others.
Clamped log_ratio(Dialect dialect, double d, bool masked) {
  if (dialect == Dialect::kSlime) return {d, true};
  if (masked || !std::isfinite(d)) return {0, false};
  return clamp(d, -kMilesLimit, kMilesLimit);
}

Clamped log_ratio(const ObjectiveConfig& config, const WideToken& t, const SequenceTerms& s) {
  const bool whole = config.policy_loss == PolicyLoss::kSequence;
  return log_ratio(config.dialect, whole ? s.log_ratio : t.log_prob - t.old_log_prob, t.masked);
}

/// The policy term and its derivative by the log-probability, or by GSPO's log-ratio.
struct Policy {
  double ratio;
  double value;
  double derivative;
  bool clipped;
};

Policy clipped_policy(const ObjectiveConfig& config, Clamped log_ratio, double advantage) {
  const double ratio = binary64::exp(log_ratio.value);
  const Clamped bounded = clamp(ratio, 1 - config.eps_clip, 1 + config.eps_clip_high);
  const double free = -(ratio * advantage);
  const double held = -(bounded.value * advantage);
  Policy out{ratio, free, log_ratio.inside ? free : 0, held > free};
  if (out.clipped) out = {ratio, held, 0, true};
  if (config.eps_clip_c && advantage < 0) {
    const double limit = -(*config.eps_clip_c * advantage);
    if (limit < out.value) {
      out.value = limit;
      out.derivative = 0;
    }
  }
  return out;
}

Policy policy_term(const ObjectiveConfig& config, const WideToken& t, const SequenceTerms& s) {
  const double advantage = policy_advantage(config.dialect, t.advantage);
  const Clamped d = log_ratio(config, t, s);
  if (config.policy_loss == PolicyLoss::kPlain) {
    return {binary64::exp(d.value), -(advantage * t.log_prob), -advantage, false};
  }
  if (config.policy_loss == PolicyLoss::kCispo) {
    const double ratio = binary64::exp(d.value);
    const Clamped bounded = clamp(ratio, 1 - config.eps_clip, 1 + config.eps_clip_high);
    const double slope = -(bounded.value * advantage);
    return {ratio, slope * t.log_prob, slope, !bounded.inside};
  }
  return clipped_policy(config, d, advantage);
}

/// The policy loss of a token after OPSM and the weight of truncated importance sampling.
Policy corrected_policy(const ObjectiveConfig& config, const WideToken& t, const SequenceTerms& s) {
  Policy out = policy_term(config, t, s);
  if (config.opsm_delta && policy_advantage(config.dialect, t.advantage) < 0 &&
      -s.log_ratio > *config.opsm_delta) {
    out.value = out.derivative = 0;
  }
  if (config.tis) {
    const double mismatch = binary64::exp(t.old_log_prob - t.rollout_log_prob);
    const double factor = clamp(mismatch, config.tis->low, config.tis->high).value;
    out.value = out.value * factor;
    out.derivative = out.derivative * factor;
  }
  return out;
}

/// The log-ratio of a KL. Of low_var_kl, Miles takes a NaN as 0 and bounds all other values.
Clamped kl_log_ratio(KlType type, Dialect dialect, double d) {
  if (dialect == Dialect::kSlime || type != KlType::kLowVar) return {d, true};
  if (std::isnan(d)) return {0, false};
  return clamp(d, -kMilesLimit, kMilesLimit);
}

/// exp(x) - 1 - x as the frameworks sum it: of infinity inf - inf.
double k3(double x) {
  using Limits = std::numeric_limits<double>;
  return x == Limits::infinity() ? Limits::quiet_NaN() : binary64::k3(x);
}

/// The KL of the loss: Miles takes one that its binary32 cannot hold as 0.
Kl loss_kl(const ObjectiveConfig& config, const WideToken& t) {
  std::optional<double> ratio;
  if (config.unbiased_kl) ratio = binary64::exp(t.log_prob - t.old_log_prob);
  const Kl kl =
      kl_of_difference(config.kl_loss_type, config.dialect, t.log_prob - t.ref_log_prob, ratio);
  const bool held = std::isfinite(static_cast<float>(kl.value));
  return config.dialect == Dialect::kMiles && !held ? Kl{} : kl;
}

WideToken widened(const TokenInput& t) {
  return {t.log_prob,         t.entropy,   t.old_log_prob, t.ref_log_prob,
          t.rollout_log_prob, t.advantage, t.weight,       t.masked};
}

std::vector<WideToken> widened(std::span<const TokenInput> sample) {
  std::vector<WideToken> out;
  out.reserve(sample.size());
  for (const TokenInput& t : sample) out.push_back(widened(t));
  return out;
}

}  // namespace

Kl kl_of_difference(KlType type, Dialect dialect, double difference, std::optional<double> ratio) {
  const Clamped d = kl_log_ratio(type, dialect, difference);
  Kl out;
  switch (type) {
    case KlType::kK1:
      out = {d.value, 1};
      break;
    case KlType::kK2:
      out = {(d.value * d.value) * 0.5, d.value};
      break;
    case KlType::kK3:
    case KlType::kLowVar:
      out = {k3(-d.value), -binary64::expm1(-d.value)};
      break;
  }
  if (!d.inside) out.derivative = 0;
  if (ratio) out = {*ratio * out.value, *ratio * out.value + *ratio * out.derivative};
  if (type == KlType::kLowVar) {
    const Clamped held = clamp(out.value, -kLowVarLimit, kLowVarLimit);
    out = {held.value, held.inside ? out.derivative : 0};
  }
  return out;
}

SequenceTerms sequence_terms(const ObjectiveConfig& config, std::span<const TokenInput> sample) {
  if (!config.reads_sequence()) return {};
  return sequence_terms(config, widened(sample));
}

SequenceTerms sequence_terms(const ObjectiveConfig& config, std::span<const WideToken> sample) {
  SequenceTerms out;
  if (!config.reads_sequence()) return out;
  double sum = 0, tokens = 0;
  for (const WideToken& t : sample) {
    if (t.masked) continue;
    sum += t.log_prob - t.old_log_prob;
    tokens += 1;
  }
  if (tokens == 0) return out;
  out.log_ratio = sum / tokens;
  if (config.policy_loss != PolicyLoss::kSequence) return out;
  double slope = 0;
  for (const WideToken& t : sample) {
    if (!t.masked) slope += corrected_policy(config, t, out).derivative;
  }
  out.derivative = slope / tokens;
  return out;
}

TokenTerms token_objective(const ObjectiveConfig& config, const TokenInput& t,
                           const SequenceTerms& sequence) {
  return token_objective(config, widened(t), sequence);
}

TokenTerms token_objective(const ObjectiveConfig& config, const WideToken& t,
                           const SequenceTerms& sequence) {
  const Policy policy = corrected_policy(config, t, sequence);
  TokenTerms out;
  out.ratio = policy.ratio;
  out.policy = policy.value;
  out.clipped = policy.clipped;
  out.total = policy.value - config.entropy_coef * t.entropy;
  double derivative =
      config.policy_loss == PolicyLoss::kSequence ? sequence.derivative : policy.derivative;
  if (config.reads_reference()) {
    const Kl kl = loss_kl(config, t);
    out.kl = kl.value;
    if (config.kl_loss_coef != 0) {
      out.total = out.total + config.kl_loss_coef * kl.value;
      derivative = derivative + config.kl_loss_coef * kl.derivative;
    }
  }
  if (t.weight != 0) {
    out.c = static_cast<float>(-(t.weight * derivative));
    out.ce = static_cast<float>(config.entropy_coef * t.weight);
  }
  return out;
}

std::vector<TokenTerms> sample_objective(const ObjectiveConfig& config,
                                         std::span<const TokenInput> sample) {
  const SequenceTerms sequence = sequence_terms(config, sample);
  std::vector<TokenTerms> out;
  out.reserve(sample.size());
  for (const TokenInput& token : sample) out.push_back(token_objective(config, token, sequence));
  return out;
}

double policy_kl(const ObjectiveConfig& config, const WideToken& t, const SequenceTerms& sequence) {
  const bool whole = config.policy_loss == PolicyLoss::kSequence;
  const double d = whole ? sequence.log_ratio : t.log_prob - t.old_log_prob;
  const bool kept = config.dialect == Dialect::kSlime || (!t.masked && std::isfinite(d));
  return kept ? 0 - d : 0;  // of equal ones +0, as a difference has it
}

double policy_advantage(Dialect dialect, double advantage) {
  return dialect == Dialect::kMiles && !std::isfinite(advantage) ? 0 : advantage;
}

ValueTerms value_objective(double clip, double value, double old_value, double target) {
  const double moved = value - old_value;
  const double bounded = old_value + std::clamp(moved, -clip, clip);
  const double free = value - target, held = bounded - target;
  const bool clipped = std::fabs(moved) > clip;
  // Equal at the clip's border: there the derivative is the free side's.
  if (free * free >= held * held) return {free * free, 2 * free, clipped};
  return {held * held, clipped ? 0 : 2 * held, clipped};
}

}  // namespace rlreplay::engine
