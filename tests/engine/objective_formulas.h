#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "src/objective/advantage.h"
#include "src/objective/token_objective.h"

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
  if (dialect == Dialect::kMiles && type == KlType::kLowVar) d = limited(d, -20, 20);
  if (type == KlType::kK1) return d;
  if (type == KlType::kK2) return d * d / 2;
  const Real k3 = exp_less_line(-d);
  return type == KlType::kK3 ? k3 : limited(k3, -10, 10);
}

/// Whether Miles' binary32 holds a KL; it takes one that it does not hold as 0.
inline bool is_held(const ObjectiveConfig& o, Real kl) {
  return o.dialect == Dialect::kSlime ||
         std::fabs(kl) <= std::numeric_limits<float>::max() * 1.00000003L;
}

inline Real loss_kl(const ObjectiveConfig& o, const Token& t) {
  const Real value = kl(o.kl_loss_type, o.dialect, t.log_prob, t.ref);
  return is_held(o, value) ? value : 0;
}

inline Real total(const ObjectiveConfig& o, const Token& t) {
  const Real penalty = o.kl_loss_coef == 0 ? 0 : o.kl_loss_coef * loss_kl(o, t);
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
  const bool low_var = o.kl_loss_type == KlType::kLowVar;
  if (o.dialect == Dialect::kMiles && low_var && !within(d, -20, 20)) slope = 0;
  if (!is_held(o, kl(o.kl_loss_type, o.dialect, t.log_prob, t.ref))) slope = 0;
  if (o.kl_loss_type == KlType::kLowVar &&
      !within(kl(KlType::kK3, o.dialect, t.log_prob, t.ref), -10, 10)) {
    slope = 0;
  }
  return out + o.kl_loss_coef * slope;
}

/// The loss of one sample's unmasked tokens, weighted alike. `fixed`: the same tokens where a
/// policy's own past or a weight is a constant.
inline Real sequence_loss(const ObjectiveConfig& o, const std::vector<Token>& tokens,
                          const std::vector<Token>& fixed, const std::vector<uint8_t>& mask,
                          Real weight) {
  Real n = 0, mean = 0, fixed_mean = 0;
  for (size_t t = 0; t < mask.size(); ++t) {
    if (mask[t] == 0) continue;
    n += 1;
    mean += tokens[t].log_prob - tokens[t].old;
    fixed_mean += fixed[t].log_prob - fixed[t].old;
  }
  mean /= std::max(n, Real{1});
  fixed_mean /= std::max(n, Real{1});
  Real sum = 0;
  for (size_t t = 0; t < mask.size(); ++t) {
    if (mask[t] == 0) continue;
    Token x = tokens[t];
    Real loss = policy(o, x);
    if (o.policy_loss == PolicyLoss::kSequence) {
      x.log_prob = x.old + mean;
      loss = policy(o, x);
    } else if (o.policy_loss == PolicyLoss::kCispo) {
      const Real ratio = std::exp(log_ratio(o, fixed[t]));
      loss = -limited(ratio, Real{1} - o.eps_clip, Real{1} + o.eps_clip_high) * x.advantage *
             x.log_prob * importance(o, x);
    }
    if (o.opsm_delta && x.advantage < 0 && -fixed_mean > *o.opsm_delta) loss = 0;
    if (o.kl_loss_coef != 0) {
      Real value = kl(KlType::kK3, o.dialect, tokens[t].log_prob, tokens[t].ref);
      if (o.kl_loss_type != KlType::kK3) {
        value = kl(o.kl_loss_type, o.dialect, tokens[t].log_prob, tokens[t].ref);
      }
      if (o.unbiased_kl) {
        const bool low_var = o.kl_loss_type == KlType::kLowVar;
        const KlType free = low_var ? KlType::kK3 : o.kl_loss_type;
        value = std::exp(tokens[t].log_prob - tokens[t].old) *
                kl(free, o.dialect, tokens[t].log_prob, tokens[t].ref);
        if (low_var) value = limited(value, -10, 10);
      }
      loss += o.kl_loss_coef * value;
    }
    sum += weight * (loss - o.entropy_coef * tokens[t].entropy);
  }
  return sum;
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

/// What the tokens of one sample gain: sums over its later tokens, written out.
inline std::vector<Real> token_advantages(const AdvantageConfig& a, const Sample& s,
                                          const SampleTargets& t, Real reward) {
  const size_t n = s.loss_mask.size();
  const bool gae = a.estimator == Estimator::kPpo, miles = a.dialect == Dialect::kMiles;
  const bool discounted = a.estimator == Estimator::kReinforcePlusPlus;
  std::vector<Real> penalty(n);
  for (size_t k = 0; k < n && a.kl_coef != 0 && a.estimator != Estimator::kGrpo; ++k) {
    penalty[k] = a.kl_coef * kl(a.kl_type, a.dialect, t.old_log_probs[k], t.ref_log_probs[k]);
  }
  std::vector<Real> out;
  if (!gae && !discounted) {
    for (size_t k = 0; k < n; ++k) out.push_back(reward - penalty[k]);
    return out;
  }
  std::vector<size_t> places;  // tokens that are steps of the process
  for (size_t k = 0; k < n; ++k) {
    if (!(gae && miles) || s.loss_mask[k] != 0) places.push_back(k);
  }
  std::vector<Real> gain(n);
  size_t last = n;
  for (const size_t k : places) {
    gain[k] = discounted && !miles && s.loss_mask[k] == 0 ? 0 : -penalty[k];
    if (gae || s.loss_mask[k] != 0) last = k;
  }
  if (last < n) gain[last] += reward;
  out.assign(n, 0);
  for (size_t p = 0; p < places.size(); ++p) {
    Real factor = 1;
    for (size_t q = p; q < places.size(); ++q) {
      Real x = gain[places[q]];
      if (gae) {
        const Real next = q + 1 < places.size() ? Real{t.values[places[q + 1]]} : 0;
        x += a.gamma * next - t.values[places[q]];
      }
      out[places[p]] += factor * x;
      factor *= gae ? Real{a.gamma} * a.lambda : Real{a.gamma};
    }
  }
  return out;
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
    const bool grouped =
        a.estimator == Estimator::kGrpo || a.estimator == Estimator::kReinforcePlusPlusBaseline;
    if (a.normalize_rewards && grouped) {
      reward -= mean;
      const bool skipped = a.dialect == Dialect::kMiles && (group.size() == 1 || square < 1e-30L);
      if (a.estimator == Estimator::kGrpo && a.normalize_std && !skipped) {
        reward /= deviation + 1e-6L;
      }
    }
    out.emplace_back(token_advantages(a, samples[i], targets[i], reward));
    for (size_t t = 0; t < samples[i].loss_mask.size(); ++t) {
      Real& x = out.back()[t];
      if (a.opd_kl_coef) {
        x -= *a.opd_kl_coef * (Real{targets[i].old_log_probs[t]} - targets[i].teacher_log_probs[t]);
      }
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
