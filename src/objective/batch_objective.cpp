#include "src/objective/batch_objective.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "src/objective/check_batch.h"
#include "src/objective/wide_inputs.h"

namespace rlreplay::engine {

SampleHeader header_of(const Sample& s) {
  SampleHeader out;
  out.id = s.id;
  std::tie(out.has_trajectory, out.trajectory) = trajectory_of(s);
  out.unmasked = std::count(s.loss_mask.begin(), s.loss_mask.end(), uint8_t{1});
  out.says_tokens = s.trajectory_tokens.has_value();
  out.trajectory_tokens = s.trajectory_tokens.value_or(0);
  out.tokens = static_cast<int64_t>(s.tokens.size());
  return out;
}

std::vector<double> sample_weights(Reducer reducer, std::span<const Sample> samples,
                                   std::optional<int64_t> trajectories) {
  std::vector<SampleHeader> headers;
  headers.reserve(samples.size());
  for (const Sample& s : samples) headers.push_back(header_of(s));
  return sample_weights(reducer, headers, trajectories);
}

/// All sums are of integers: no order of samples changes a weight.
std::vector<double> sample_weights(Reducer reducer, std::span<const SampleHeader> samples,
                                   std::optional<int64_t> trajectories) {
  std::map<std::pair<bool, uint64_t>, int64_t> of_trajectory;
  int64_t total = 0;
  for (const SampleHeader& s : samples) {
    of_trajectory[{s.has_trajectory, s.trajectory}] += s.unmasked;
    total += std::max<int64_t>(1, s.unmasked);
  }
  const auto count = trajectories.value_or(static_cast<int64_t>(of_trajectory.size()));
  std::vector<double> out;
  for (const SampleHeader& s : samples) {
    const int64_t own =
        s.says_tokens ? s.trajectory_tokens : of_trajectory[{s.has_trajectory, s.trajectory}];
    const double denominator =
        reducer == Reducer::kTokenMean
            ? static_cast<double>(total)
            : static_cast<double>(std::max<int64_t>(1, own)) * static_cast<double>(count);
    out.push_back(1.0 / denominator);
  }
  return out;
}

double loss_weight(const ObjectiveConfig& config, const Sample& s, const SampleTargets& targets,
                   double weight) {
  double out = 0;
  for (size_t t = 0; t < s.loss_mask.size(); ++t) {
    if (s.loss_mask[t] == 0) continue;
    const double terms =
        (std::fabs(policy_advantage(config.dialect, targets.advantages[t])) + config.kl_loss_coef) +
        config.entropy_coef;
    out += weight * terms;
  }
  return out;
}

TokenInput token_input(const Sample& s, const SampleTargets& targets, double weight, size_t t,
                       float log_prob, float entropy) {
  TokenInput in;
  in.log_prob = log_prob;
  in.entropy = entropy;
  in.old_log_prob = targets.old_log_probs.empty() ? log_prob : targets.old_log_probs[t];
  if (!targets.ref_log_probs.empty()) in.ref_log_prob = targets.ref_log_probs[t];
  if (!s.rollout_log_probs.empty()) in.rollout_log_prob = s.rollout_log_probs[t];
  in.advantage = targets.advantages[t];
  in.masked = s.loss_mask[t] == 0;
  in.weight = in.masked ? 0.0 : weight;
  return in;
}

std::vector<TokenInput> sample_input(const Sample& s, const SampleTargets& targets, double weight,
                                     const Scores& scores) {
  std::vector<TokenInput> out;
  out.reserve(s.loss_mask.size());
  for (size_t t = 0; t < s.loss_mask.size(); ++t) {
    out.push_back(token_input(s, targets, weight, t, scores.log_probs[t], scores.entropy[t]));
  }
  return out;
}

void add(Losses& to, const TokenTerms& x, double entropy, double w) {
  to.policy += w * x.policy;
  to.entropy += w * entropy;
  to.kl += w * x.kl;
  to.total += w * x.total;
  if (x.clipped) to.clip_fraction += w;
}

void add(Losses& to, const Losses& sample) {
  to.policy += sample.policy;
  to.entropy += sample.entropy;
  to.kl += sample.kl;
  to.total += sample.total;
  to.clip_fraction += sample.clip_fraction;
}

Losses sample_losses(const Sample& s, double weight, const Scores& scores,
                     std::span<const TokenTerms> terms) {
  Losses out;
  for (size_t t = 0; t < terms.size(); ++t) {
    if (s.loss_mask[t] == 0) continue;
    add(out, terms[t], static_cast<double>(scores.entropy[t]), weight);
  }
  return out;
}

}  // namespace rlreplay::engine
