#include "src/engine/torch/objective.h"

#include <algorithm>
#include <vector>

namespace rlreplay::aten {
namespace {

/// Everything the objective reads, per response token of all samples.
struct Columns {
  at::Tensor advantage, old, ref, rollout, weight, masked;
};

Columns make_columns(std::span<const Sample> samples, std::span<const SampleTargets> targets,
                     std::span<const double> weights, const at::Tensor& log_prob) {
  std::vector<double> columns[7];
  for (size_t i = 0; i < samples.size(); ++i) {
    const Sample& s = samples[i];
    const SampleTargets& t = targets[i];
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

/// The mean of unmasked log-ratios of each sample, for each of its tokens.
at::Tensor sequence_log_ratio(std::span<const Sample> samples, const Columns& t,
                              const at::Tensor& log_prob) {
  const auto log_ratio = at::where(t.masked, at::zeros_like(log_prob), log_prob - t.old);
  std::vector<at::Tensor> parts{log_prob.new_zeros({0})};
  int64_t first = 0;
  for (const Sample& s : samples) {
    const auto n = static_cast<int64_t>(s.loss_mask.size());
    const auto unmasked = std::count(s.loss_mask.begin(), s.loss_mask.end(), uint8_t{1});
    const auto sum = log_ratio.slice(0, first, first + n).sum();
    parts.push_back((sum / static_cast<double>(std::max<int64_t>(1, unmasked))).expand({n}));
    first += n;
  }
  return at::cat(parts);
}

Policy clipped_terms(const engine::ObjectiveConfig& o, const at::Tensor& ratio,
                     const at::Tensor& advantage) {
  const auto bounded = at::clamp(ratio, 1.0 - o.eps_clip, 1.0 + o.eps_clip_high);
  const auto free = -ratio * advantage, held = -bounded * advantage;
  Policy out{ratio, at::maximum(free, held), held > free};
  if (o.eps_clip_c) {
    const auto limit = -*o.eps_clip_c * advantage;
    out.loss = at::where(advantage < 0, at::minimum(out.loss, limit), out.loss);
  }
  return out;
}

Policy policy_terms(const engine::ObjectiveConfig& o, std::span<const Sample> samples,
                    const Columns& t, const at::Tensor& log_prob) {
  const bool miles = o.dialect == engine::Dialect::kMiles;
  const bool whole = o.policy_loss == engine::PolicyLoss::kSequence;
  const auto sequence =
      o.reads_sequence() ? sequence_log_ratio(samples, t, log_prob) : at::Tensor();
  auto advantage = t.advantage;
  auto log_ratio = whole ? sequence : log_prob - t.old;
  if (miles) {
    const auto bad = at::logical_or(t.masked, at::logical_not(at::isfinite(log_ratio)));
    log_ratio = at::clamp(at::where(bad, at::zeros_like(log_ratio), log_ratio), -20.0, 20.0);
    advantage = at::where(t.masked, at::zeros_like(advantage), advantage);
  }
  const auto ratio = log_ratio.exp();
  Policy out;
  if (o.policy_loss == engine::PolicyLoss::kPlain) {
    out = {ratio, -advantage * log_prob, at::zeros_like(ratio, at::kBool)};
  } else if (o.policy_loss == engine::PolicyLoss::kCispo) {
    const auto bounded = at::clamp(ratio, 1.0 - o.eps_clip, 1.0 + o.eps_clip_high).detach();
    out = {ratio, -bounded * advantage * log_prob, bounded != ratio};
  } else {
    out = clipped_terms(o, ratio, advantage);
  }
  if (o.opsm_delta) {
    const auto left_out = at::logical_and(advantage<0, -sequence.detach()> * o.opsm_delta);
    out.loss = at::where(left_out, at::zeros_like(out.loss), out.loss);
  }
  if (o.tis) {
    out.loss = out.loss * at::clamp((t.old - t.rollout).exp(), o.tis->low, o.tis->high);
  }
  return out;
}

at::Tensor kl_terms(const engine::ObjectiveConfig& o, const Columns& t,
                    const at::Tensor& log_prob) {
  const bool miles = o.dialect == engine::Dialect::kMiles;
  const bool low_var = o.kl_loss_type == engine::KlType::kLowVar;
  auto d = log_prob - t.ref;
  if (miles && low_var) d = at::clamp(d, -20.0, 20.0);
  at::Tensor kl = d;
  if (o.kl_loss_type == engine::KlType::kK2) kl = d.pow(2) / 2;
  if (low_var || o.kl_loss_type == engine::KlType::kK3) kl = at::expm1(-d) + d;
  if (o.unbiased_kl) kl = (log_prob - t.old).exp() * kl;
  if (low_var) kl = at::clamp(kl, -10.0, 10.0);
  if (miles) kl = at::where(at::isfinite(kl), kl, at::zeros_like(kl));
  return kl;
}

}  // namespace

Objective make_objective(const engine::ObjectiveConfig& o, std::span<const Sample> samples,
                         std::span<const SampleTargets> targets, std::span<const double> weights,
                         const at::Tensor& log_prob, const at::Tensor& entropy) {
  const Columns t = make_columns(samples, targets, weights, log_prob);
  const auto reduce = [&](const at::Tensor& x) { return (x * t.weight).sum(); };
  const double entropy_coef = o.entropy_coef;
  const double kl_coef = o.kl_loss_coef;
  const Policy policy = policy_terms(o, samples, t, log_prob);
  const auto kl = o.reads_reference() ? kl_terms(o, t, log_prob) : at::zeros_like(log_prob);
  Objective out;
  out.ratio = policy.ratio;
  out.policy = policy.loss;
  out.clipped = policy.clipped;
  out.kl = kl;
  out.token_total = policy.loss - entropy_coef * entropy;
  if (kl_coef != 0) out.token_total = out.token_total + kl_coef * kl;
  out.policy_loss = reduce(policy.loss);
  out.entropy_loss = reduce(entropy);
  out.kl_loss = reduce(kl);
  out.total = out.policy_loss - entropy_coef * out.entropy_loss;
  if (kl_coef != 0) out.total = out.total + kl_coef * out.kl_loss;
  return out;
}

}  // namespace rlreplay::aten
