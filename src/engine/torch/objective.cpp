#include "src/engine/torch/objective.h"

#include <vector>

namespace rlreplay::aten {
namespace {

/// Everything the objective reads, per response token of all samples.
struct Columns {
  at::Tensor advantage, old, ref, rollout, weight, masked;
};

Columns make_columns(std::span<const engine::Sample> samples,
                     std::span<const engine::SampleTargets> targets,
                     std::span<const double> weights, const at::Tensor& log_prob) {
  std::vector<double> columns[7];
  for (size_t i = 0; i < samples.size(); ++i) {
    const engine::Sample& s = samples[i];
    const engine::SampleTargets& t = targets[i];
    const auto value = [](const std::vector<float>& all, size_t j) {
      return all.empty() ? 0.0 : static_cast<double>(all[j]);
    };
    for (size_t j = 0; j < s.loss_mask.size(); ++j) {
      const bool masked = s.loss_mask[j] == 0;
      columns[0].push_back(value(t.advantages, j));
      columns[1].push_back(value(t.old_log_probs, j));
      columns[2].push_back(value(t.ref_log_probs, j));
      columns[3].push_back(value(s.rollout_log_probs, j));
      columns[4].push_back(masked ? 0 : weights[i]);
      columns[5].push_back(masked ? 1 : 0);
      columns[6].push_back(t.old_log_probs.empty() ? 1 : 0);
    }
  }
  const auto column = [&](int i) {
    return at::tensor(columns[i], at::kDouble).to(log_prob.scalar_type());
  };
  // Without a past of its own the policy is its own past.
  const auto old = at::where(column(6) != 0, log_prob.detach(), column(1));
  return {column(0), old, column(2), column(3), column(4), column(5) != 0};
}

struct Policy {
  at::Tensor ratio, loss, clipped;
};

Policy policy_terms(const engine::ObjectiveConfig& o, const Columns& t,
                    const at::Tensor& log_prob) {
  const bool miles = o.dialect == engine::Dialect::kMiles;
  auto advantage = t.advantage;
  auto log_ratio = log_prob - t.old;
  if (miles) {
    const auto bad = at::logical_or(t.masked, at::logical_not(at::isfinite(log_ratio)));
    log_ratio = at::clamp(at::where(bad, at::zeros_like(log_ratio), log_ratio), -20.0, 20.0);
    advantage = at::where(t.masked, at::zeros_like(advantage), advantage);
  }
  const auto ratio = log_ratio.exp();
  Policy out{ratio, -advantage * log_prob, at::zeros_like(ratio, at::kBool)};
  if (o.policy_loss == engine::PolicyLoss::kClip) {
    const auto bounded = at::clamp(ratio, 1.0 - o.eps_clip, 1.0 + o.eps_clip_high);
    const auto free = -ratio * advantage, held = -bounded * advantage;
    out.loss = at::maximum(free, held);
    out.clipped = held > free;
    if (o.eps_clip_c) {
      const auto limit = -*o.eps_clip_c * advantage;
      out.loss = at::where(advantage < 0, at::minimum(out.loss, limit), out.loss);
    }
  }
  if (o.tis) {
    out.loss = out.loss * at::clamp((t.old - t.rollout).exp(), o.tis->low, o.tis->high);
  }
  return out;
}

at::Tensor kl_terms(const engine::ObjectiveConfig& o, const Columns& t,
                    const at::Tensor& log_prob) {
  auto d = log_prob - t.ref;
  if (o.dialect == engine::Dialect::kMiles) d = at::clamp(d, -20.0, 20.0);
  switch (o.kl_loss_type) {
    case engine::KlType::kK1:
      return d;
    case engine::KlType::kK2:
      return d.pow(2) / 2;
    case engine::KlType::kK3:
      return at::expm1(-d) + d;
    case engine::KlType::kLowVar:
      return at::clamp(at::expm1(-d) + d, -10.0, 10.0);
  }
  return d;
}

}  // namespace

Objective make_objective(const engine::ObjectiveConfig& o, std::span<const engine::Sample> samples,
                         std::span<const engine::SampleTargets> targets,
                         std::span<const double> weights, const at::Tensor& log_prob,
                         const at::Tensor& entropy) {
  const Columns t = make_columns(samples, targets, weights, log_prob);
  const auto reduce = [&](const at::Tensor& x) { return (x * t.weight).sum(); };
  const double entropy_coef = o.entropy_coef;
  const double kl_coef = o.kl_loss_coef;
  const Policy policy = policy_terms(o, t, log_prob);
  const auto kl = kl_coef == 0 ? at::zeros_like(log_prob) : kl_terms(o, t, log_prob);
  Objective out;
  out.ratio = policy.ratio;
  out.policy = policy.loss;
  out.clipped = policy.clipped;
  out.kl = kl;
  out.token_total = policy.loss - entropy_coef * entropy + kl_coef * kl;
  out.policy_loss = reduce(policy.loss);
  out.entropy_loss = reduce(entropy);
  out.kl_loss = reduce(kl);
  out.total = out.policy_loss - entropy_coef * out.entropy_loss + kl_coef * out.kl_loss;
  return out;
}

}  // namespace rlreplay::aten
