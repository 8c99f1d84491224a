#include "src/engine/objective.h"

#include <algorithm>
#include <cmath>

#include "kernels/binary64.h"

namespace rlreplay::engine {
namespace {

namespace binary64 = kernels::binary64;

constexpr double kMilesLimit = 20;
constexpr double kLowVarLimit = 10;

double difference(float a, float b) { return static_cast<double>(a) - static_cast<double>(b); }

/// A value and whether it moves with its argument.
struct Clamped {
  double value;
  bool inside;
};

Clamped clamp(double x, double low, double high) {
  if (x < low) return {low, false};
  if (x > high) return {high, false};
  return {x, true};
}

Clamped log_ratio(Dialect dialect, const TokenInput& t) {
  const double d = difference(t.log_prob, t.old_log_prob);
  if (dialect == Dialect::kSlime) return {d, true};
  if (t.masked || !std::isfinite(d)) return {0, false};
  return clamp(d, -kMilesLimit, kMilesLimit);
}

/// The policy term and its derivative by the log-probability.
struct Policy {
  double ratio;
  double value;
  double derivative;
  bool clipped;
};

Policy policy_term(const ObjectiveConfig& config, const TokenInput& t) {
  const double advantage = static_cast<double>(t.advantage);
  const Clamped d = log_ratio(config.dialect, t);
  const double ratio = binary64::exp(d.value);
  if (config.policy_loss == PolicyLoss::kPlain) {
    return {ratio, -(advantage * static_cast<double>(t.log_prob)), -advantage, false};
  }
  const Clamped bounded = clamp(ratio, 1 - config.eps_clip, 1 + config.eps_clip_high);
  const double free = -(ratio * advantage);
  const double held = -(bounded.value * advantage);
  Policy out{ratio, free, d.inside ? free : 0, held > free};
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

}  // namespace

Kl kl_estimate(KlType type, Dialect dialect, float log_prob, float ref_log_prob) {
  const double whole = difference(log_prob, ref_log_prob);
  const Clamped d =
      dialect == Dialect::kMiles ? clamp(whole, -kMilesLimit, kMilesLimit) : Clamped{whole, true};
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
      out = {binary64::k3(-d.value), -binary64::expm1(-d.value)};
      break;
  }
  if (type == KlType::kLowVar) {
    const Clamped bounded = clamp(out.value, -kLowVarLimit, kLowVarLimit);
    out = {bounded.value, bounded.inside ? out.derivative : 0};
  }
  if (!d.inside) out.derivative = 0;
  return out;
}

TokenTerms token_objective(const ObjectiveConfig& config, const TokenInput& t) {
  Policy policy = policy_term(config, t);
  if (config.tis) {
    const double mismatch = binary64::exp(difference(t.old_log_prob, t.rollout_log_prob));
    const double factor = clamp(mismatch, config.tis->low, config.tis->high).value;
    policy.value = policy.value * factor;
    policy.derivative = policy.derivative * factor;
  }
  TokenTerms out;
  out.ratio = policy.ratio;
  out.policy = policy.value;
  out.clipped = policy.clipped;
  out.total = policy.value - config.entropy_coef * static_cast<double>(t.entropy);
  double derivative = policy.derivative;
  if (config.kl_loss_coef != 0) {
    const Kl kl = kl_estimate(config.kl_loss_type, config.dialect, t.log_prob, t.ref_log_prob);
    out.kl = kl.value;
    out.total = out.total + config.kl_loss_coef * kl.value;
    derivative = derivative + config.kl_loss_coef * kl.derivative;
  }
  if (t.weight != 0) {
    out.c = static_cast<float>(-(t.weight * derivative));
    out.ce = static_cast<float>(config.entropy_coef * t.weight);
  }
  return out;
}

std::vector<double> sample_weights(Reducer reducer, std::span<const Sample> samples) {
  const auto tokens = [](const Sample& s) {
    return std::max<int64_t>(1, std::count(s.loss_mask.begin(), s.loss_mask.end(), uint8_t{1}));
  };
  int64_t total = 0;
  for (const Sample& s : samples) total += tokens(s);
  std::vector<double> out;
  for (const Sample& s : samples) {
    const double denominator =
        reducer == Reducer::kTokenMean
            ? static_cast<double>(total)
            : static_cast<double>(tokens(s)) * static_cast<double>(samples.size());
    out.push_back(1.0 / denominator);
  }
  return out;
}

double total_loss_weight(const ObjectiveConfig& config, std::span<const Sample> samples,
                         std::span<const SampleTargets> targets, std::span<const double> weights) {
  double total = 0;
  for (const size_t i : by_id(samples)) {
    double sample = 0;
    for (size_t t = 0; t < samples[i].loss_mask.size(); ++t) {
      if (samples[i].loss_mask[t] == 0) continue;
      const double terms =
          (std::fabs(static_cast<double>(targets[i].advantages[t])) + config.kl_loss_coef) +
          config.entropy_coef;
      sample += weights[i] * terms;
    }
    total += sample;
  }
  return total;
}

}  // namespace rlreplay::engine
