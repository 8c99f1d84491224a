#include "src/objective/losses.h"

#include <algorithm>
#include <cmath>

#include "src/objective/check_batch.h"

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

std::vector<TokenInput> sample_input(const Sample& s, const SampleTargets& targets, double weight,
                                     const Scores& scores) {
  std::vector<TokenInput> out;
  out.reserve(s.loss_mask.size());
  for (size_t t = 0; t < s.loss_mask.size(); ++t) {
    out.push_back(token_input(s, targets, weight, t, scores.log_probs[t], scores.entropy[t]));
  }
  return out;
}

namespace {

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

}  // namespace

Losses reduce_losses(std::span<const Sample> samples, std::span<const double> weights,
                     std::span<const Scores> scores,
                     std::span<const std::vector<TokenTerms>> terms) {
  Losses out;
  for (const size_t i : by_id(samples)) {
    Losses sample;
    for (size_t t = 0; t < terms[i].size(); ++t) {
      if (samples[i].loss_mask[t] == 0) continue;
      add(sample, terms[i][t], static_cast<double>(scores[i].entropy[t]), weights[i]);
    }
    add(out, sample);
  }
  return out;
}

Losses evaluate_losses(const ObjectiveConfig& config, std::span<const Sample> samples,
                       std::span<const SampleTargets> targets, std::span<const double> weights,
                       std::span<const Scores> scores) {
  check_batch(config, samples, targets);
  for (size_t i = 0; i < samples.size(); ++i) {
    check_scores(samples[i], scores[i].log_probs, scores[i].entropy);
  }
  Losses out;
  for (const size_t i : by_id(samples)) {
    const Scores& of = scores[i];
    std::vector<TokenInput> whole;
    if (config.reads_sequence()) whole = sample_input(samples[i], targets[i], weights[i], of);
    const SequenceTerms sequence = sequence_terms(config, whole);
    Losses sample;
    for (size_t t = 0; t < samples[i].loss_mask.size(); ++t) {
      if (samples[i].loss_mask[t] == 0) continue;
      const TokenInput token =
          token_input(samples[i], targets[i], weights[i], t, of.log_probs[t], of.entropy[t]);
      add(sample, token_objective(config, token, sequence), static_cast<double>(of.entropy[t]),
          weights[i]);
    }
    add(out, sample);
  }
  return out;
}

Objective evaluate_objective(const ObjectiveConfig& config, std::span<const Sample> samples,
                             std::span<const SampleTargets> targets,
                             std::span<const double> weights, std::span<const Scores> scores) {
  check_batch(config, samples, targets);
  Objective out;
  for (size_t i = 0; i < samples.size(); ++i) {
    check_scores(samples[i], scores[i].log_probs, scores[i].entropy);
    out.terms.push_back(
        sample_objective(config, sample_input(samples[i], targets[i], weights[i], scores[i])));
  }
  out.losses = reduce_losses(samples, weights, scores, out.terms);
  return out;
}

ValueTerms value_objective(double clip, float value, float old_value, float target) {
  const auto old = static_cast<double>(old_value), goal = static_cast<double>(target);
  const double moved = static_cast<double>(value) - old;
  const double bounded = old + std::clamp(moved, -clip, clip);
  const double free = static_cast<double>(value) - goal, held = bounded - goal;
  const bool clipped = std::fabs(moved) > clip;
  // Equal at the clip's border: there the derivative is the free side's.
  if (free * free >= held * held) return {free * free, 2 * free, clipped};
  return {held * held, clipped ? 0 : 2 * held, clipped};
}

}  // namespace rlreplay::engine
