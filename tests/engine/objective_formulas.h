#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "src/engine/advantage.h"
#include "src/engine/objective.h"

/// The objective a second time, in extended precision and from its formulas: nothing here calls the
/// engine, whose types only carry the options and the batch.
namespace rlreplay::engine::formulas {

using Real = long double;

inline Real limited(Real x, Real low, Real high) { return std::min(std::max(x, low), high); }
inline bool within(Real x, Real low, Real high) { return x >= low && x <= high; }

/// A token's numbers, the log-probability free to move.
struct Token {
  Real log_prob, entropy, old, ref, rollout, advantage;
};

inline Real log_ratio(const ObjectiveConfig& o, const Token& t) {
  const Real d = t.log_prob - t.old;
  if (o.dialect == Dialect::kSlime) return d;
  return std::isfinite(d) ? limited(d, -20, 20) : 0;
}

inline Real importance(const ObjectiveConfig& o, const Token& t) {
  if (!o.tis) return 1;
  return limited(std::exp(t.old - t.rollout), o.tis->low, o.tis->high);
}

inline Real policy(const ObjectiveConfig& o, const Token& t) {
  if (o.policy_loss == PolicyLoss::kPlain) return -t.advantage * t.log_prob * importance(o, t);
  const Real ratio = std::exp(log_ratio(o, t));
  const Real clipped = limited(ratio, Real{1} - o.eps_clip, Real{1} + o.eps_clip_high);
  Real loss = std::max(-ratio * t.advantage, -clipped * t.advantage);
  if (o.eps_clip_c && t.advantage < 0) loss = std::min(loss, -Real{*o.eps_clip_c} * t.advantage);
  return loss * importance(o, t);
}

/// exp(x) - 1 - x by its series where the difference would cancel.
inline Real exp_less_line(Real x) {
  if (std::fabs(x) > 0.1L) return std::exp(x) - 1 - x;
  Real term = 1, sum = 0;
  for (int n = 1; n < 25; ++n) {
    term *= x / n;
    if (n > 1) sum += term;
  }
  return sum;
}

inline Real kl(KlType type, Dialect dialect, Real log_prob, Real ref) {
  Real d = log_prob - ref;
  if (dialect == Dialect::kMiles) d = limited(d, -20, 20);
  if (type == KlType::kK1) return d;
  if (type == KlType::kK2) return d * d / 2;
  const Real k3 = exp_less_line(-d);
  return type == KlType::kK3 ? k3 : limited(k3, -10, 10);
}

inline Real total(const ObjectiveConfig& o, const Token& t) {
  const Real penalty =
      o.kl_loss_coef == 0 ? 0 : o.kl_loss_coef * kl(o.kl_loss_type, o.dialect, t.log_prob, t.ref);
  return policy(o, t) - o.entropy_coef * t.entropy + penalty;
}

/// d total / d log_prob, term by term.
inline Real derivative(const ObjectiveConfig& o, const Token& t) {
  Real out = -t.advantage;
  if (o.policy_loss == PolicyLoss::kClip) {
    const Real d = t.log_prob - t.old, ratio = std::exp(log_ratio(o, t));
    const bool moves = o.dialect == Dialect::kSlime || (std::isfinite(d) && within(d, -20, 20));
    const bool above = ratio > Real{1} + o.eps_clip_high, below = ratio < Real{1} - o.eps_clip;
    const bool flat = (t.advantage > 0 && above) || (t.advantage < 0 && below);
    const bool dual = o.eps_clip_c && t.advantage < 0 && ratio > *o.eps_clip_c;
    out = moves && !flat && !dual ? -ratio * t.advantage : 0;
  }
  out *= importance(o, t);
  if (o.kl_loss_coef == 0) return out;
  const Real d = t.log_prob - t.ref;
  Real slope = 1;
  if (o.kl_loss_type == KlType::kK2) slope = d;
  if (o.kl_loss_type == KlType::kK3 || o.kl_loss_type == KlType::kLowVar) slope = -std::expm1(-d);
  if (o.dialect == Dialect::kMiles && !within(d, -20, 20)) slope = 0;
  if (o.kl_loss_type == KlType::kLowVar &&
      !within(kl(KlType::kK3, o.dialect, t.log_prob, t.ref), -10, 10)) {
    slope = 0;
  }
  return out + o.kl_loss_coef * slope;
}

/// Unmasked tokens of a sample, at least 1.
inline Real denominator(const Sample& s) {
  Real n = 0;
  for (const uint8_t m : s.loss_mask) n += m;
  return std::max(n, Real{1});
}

/// The factor of sample i's tokens in the batch's loss.
inline Real weight(Reducer reducer, const std::vector<Sample>& samples, size_t i) {
  if (reducer == Reducer::kSampleMean) {
    return 1 / denominator(samples[i]) / static_cast<Real>(samples.size());
  }
  Real sum = 0;
  for (const Sample& s : samples) sum += denominator(s);
  return 1 / sum;
}

/// sum over unmasked tokens of weight value(i, t).
template <class Value>
Real reduced(Reducer reducer, const std::vector<Sample>& samples, const Value& value) {
  Real sum = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t t = 0; t < samples[i].loss_mask.size(); ++t) {
      if (samples[i].loss_mask[t] != 0) sum += weight(reducer, samples, i) * value(i, t);
    }
  }
  return sum;
}

/// Advantages of every response token.
inline std::vector<std::vector<Real>> advantages(const AdvantageConfig& a,
                                                 const std::vector<Sample>& samples,
                                                 const std::vector<SampleTargets>& targets) {
  std::vector<std::vector<Real>> out;
  Real count = 0, sum = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    std::vector<Real> group;
    for (const Sample& s : samples) {
      if (s.group == samples[i].group) group.push_back(s.reward);
    }
    Real mean = 0, square = 0;
    for (const Real r : group) mean += r / static_cast<Real>(group.size());
    for (const Real r : group) square += (r - mean) * (r - mean);
    const Real deviation = std::sqrt(square / static_cast<Real>(group.size() - 1));
    Real reward = samples[i].reward;
    if (a.normalize_rewards && a.estimator != Estimator::kPolicyGradient) {
      reward -= mean;
      const bool skipped = a.dialect == Dialect::kMiles && (group.size() == 1 || square < 1e-30L);
      if (a.estimator == Estimator::kGrpo && a.normalize_std && !skipped) {
        reward /= deviation + 1e-6L;
      }
    }
    out.emplace_back();
    for (size_t t = 0; t < samples[i].loss_mask.size(); ++t) {
      Real x = reward;
      if (a.estimator != Estimator::kGrpo && a.kl_coef != 0) {
        x -= a.kl_coef *
             kl(a.kl_type, a.dialect, targets[i].old_log_probs[t], targets[i].ref_log_probs[t]);
      }
      out.back().push_back(x);
      if (samples[i].loss_mask[t] == 0) continue;
      count += 1;
      sum += x;
    }
  }
  if (!a.normalize_advantages) return out;
  const Real mean = sum / count;
  Real square = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t t = 0; t < out[i].size(); ++t) {
      if (samples[i].loss_mask[t] != 0) square += (out[i][t] - mean) * (out[i][t] - mean);
    }
  }
  const Real variance = count > 1 ? square / (count - 1) : 0;
  for (auto& sample : out) {
    for (Real& x : sample) x = (x - mean) / std::sqrt(variance + 1e-8L);
  }
  return out;
}

/// |got - want| in units of the last place of `want` in type T (of the smallest normal below it).
template <class T>
double ulps(Real got, Real want) {
  const T near = static_cast<T>(std::max(std::fabs(want), Real{std::numeric_limits<T>::min()}));
  const T next = std::nextafter(near, std::numeric_limits<T>::infinity());
  return static_cast<double>(std::fabs(got - want) / (Real{next} - Real{near}));
}

}  // namespace rlreplay::engine::formulas
