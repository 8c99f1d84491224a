#include "src/engine/losses.h"

#include "src/engine/check_batch.h"

namespace rlreplay::engine {

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

Losses reduce_losses(std::span<const Sample> samples, std::span<const double> weights,
                     std::span<const Scores> scores,
                     std::span<const std::vector<TokenTerms>> terms) {
  Losses out;
  int64_t clipped = 0, tokens = 0;
  for (const size_t i : by_id(samples)) {
    Losses sample;
    for (size_t t = 0; t < terms[i].size(); ++t) {
      if (samples[i].loss_mask[t] == 0) continue;
      const TokenTerms& x = terms[i][t];
      const double w = weights[i];
      sample.policy += w * x.policy;
      sample.entropy += w * static_cast<double>(scores[i].entropy[t]);
      sample.kl += w * x.kl;
      sample.total += w * x.total;
      clipped += x.clipped ? 1 : 0;
      tokens += 1;
    }
    out.policy += sample.policy;
    out.entropy += sample.entropy;
    out.kl += sample.kl;
    out.total += sample.total;
  }
  out.clip_fraction = tokens == 0 ? 0 : static_cast<double>(clipped) / static_cast<double>(tokens);
  return out;
}

Objective evaluate_objective(const ObjectiveConfig& config, std::span<const Sample> samples,
                             std::span<const SampleTargets> targets,
                             std::span<const double> weights, std::span<const Scores> scores) {
  check_batch(config, samples, targets);
  Objective out;
  for (size_t i = 0; i < samples.size(); ++i) {
    check_scores(samples[i], scores[i].log_probs, scores[i].entropy);
    std::vector<TokenTerms>& terms = out.terms.emplace_back();
    for (size_t t = 0; t < samples[i].loss_mask.size(); ++t) {
      terms.push_back(
          token_objective(config, token_input(samples[i], targets[i], weights[i], t,
                                              scores[i].log_probs[t], scores[i].entropy[t])));
    }
  }
  out.losses = reduce_losses(samples, weights, scores, out.terms);
  return out;
}

}  // namespace rlreplay::engine
