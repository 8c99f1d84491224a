#include "src/engine/advantage.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "src/base/error.h"

namespace rlreplay::engine {
namespace {

/// The sum of term(x) over the unmasked tokens: a chain a sample, then one over samples by id.
template <class Term>
double sum_unmasked(std::span<const Sample> samples, const std::vector<std::vector<double>>& values,
                    const Term& term) {
  double total = 0;
  for (const size_t i : by_id(samples)) {
    double sample = 0;
    for (size_t t = 0; t < values[i].size(); ++t) {
      if (samples[i].loss_mask[t] != 0) sample += term(values[i][t]);
    }
    total += sample;
  }
  return total;
}

/// Values less the unmasked ones' mean, over their deviation (ddof 1; one token alone: ddof 0).
void whiten(std::span<const Sample> samples, std::vector<std::vector<double>>& values) {
  const double n = sum_unmasked(samples, values, [](double) { return 1.0; });
  if (n == 0) {
    throw Error(ErrorCode::kUsage,
                "advantages cannot be normalized: every response token of the batch is masked");
  }
  // A value of the batch as origin: equal values are then exactly their mean.
  double origin = 0;
  sum_unmasked(samples, values, [&](double x) { return origin = x; });
  const double mean =
      origin + sum_unmasked(samples, values, [&](double x) { return x - origin; }) / n;
  const double square =
      sum_unmasked(samples, values, [&](double x) { return (x - mean) * (x - mean); });
  const double scale = 1 / std::sqrt(square / std::max(1.0, n - 1) + 1e-8);
  for (auto& sample : values) {
    for (double& x : sample) x = (x - mean) * scale;
  }
}

/// Errors: kUsage unless every sample has a finite reward and, for each response token, a mask
/// entry and for KL in the reward both log-probabilities.
void check_samples(bool kl, std::span<const Sample> samples,
                   std::span<const SampleTargets> targets) {
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!std::isfinite(static_cast<float>(samples[i].reward))) {
      throw Error(ErrorCode::kUsage, "the reward of sample " + std::to_string(samples[i].id) +
                                         " is not a finite binary32 number");
    }
    const auto n = static_cast<size_t>(samples[i].response_length());
    const bool complete =
        samples[i].loss_mask.size() == n &&
        (!kl || (targets[i].old_log_probs.size() == n && targets[i].ref_log_probs.size() == n));
    if (complete) continue;
    throw Error(
        ErrorCode::kUsage,
        "sample " + std::to_string(samples[i].id) + " has " + std::to_string(n) +
            " response tokens, but its mask" +
            (kl ? ", old or reference log-probabilities (--kl-coef needs them) have" : " has") +
            " another length");
  }
}

float finite_advantage(const Sample& sample, double x) {
  const auto rounded = static_cast<float>(x);
  if (std::isfinite(rounded)) return rounded;
  throw Error(ErrorCode::kUsage,
              "the advantage of sample " + std::to_string(sample.id) +
                  " is not finite: its group has one member, or its KL against the reference is "
                  "not a number; use at least two samples a prompt or switch the "
                  "deviation off (--disable-grpo-std-normalization)");
}

}  // namespace

std::vector<double> shaped_rewards(const AdvantageConfig& config, std::span<const Sample> samples) {
  if (!config.normalize_rewards || config.estimator == Estimator::kPolicyGradient) {
    std::vector<double> rewards;
    for (const Sample& s : samples) rewards.push_back(s.reward);
    return rewards;
  }
  std::map<uint64_t, std::vector<size_t>> groups;
  for (const size_t i : by_id(samples)) groups[samples[i].group].push_back(i);
  std::vector<double> out(samples.size());
  for (const auto& [id, members] : groups) {
    const double n = static_cast<double>(members.size()), first = samples[members[0]].reward;
    double sum = 0, square = 0;
    for (size_t i : members) sum += samples[i].reward - first;
    const double mean = first + sum / n;
    for (size_t i : members) {
      out[i] = samples[i].reward - mean;
      square += out[i] * out[i];
    }
    if (config.estimator != Estimator::kGrpo || !config.normalize_std) continue;
    // Of one sample torch's deviation is NaN, and slime's advantage with it; Miles skips it.
    const double deviation = std::sqrt(square / (n - 1));
    if (config.dialect == Dialect::kMiles && (members.size() == 1 || deviation == 0)) continue;
    for (size_t i : members) out[i] /= deviation + 1e-6;
  }
  return out;
}

void set_advantages(const AdvantageConfig& config, std::span<const Sample> samples,
                    std::span<SampleTargets> targets) {
  const bool kl = config.kl_coef != 0 && config.estimator != Estimator::kGrpo;
  check_samples(kl, samples, targets);
  const std::vector<double> rewards = shaped_rewards(config, samples);
  std::vector<std::vector<double>> values(samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    values[i].assign(static_cast<size_t>(samples[i].response_length()), rewards[i]);
    for (size_t t = 0; kl && t < values[i].size(); ++t) {
      const Kl estimate = kl_estimate(config.kl_type, config.dialect, targets[i].old_log_probs[t],
                                      targets[i].ref_log_probs[t]);
      values[i][t] -= config.kl_coef * estimate.value;
    }
  }
  if (config.normalize_advantages) whiten(samples, values);
  for (size_t i = 0; i < samples.size(); ++i) {
    auto& out = targets[i].advantages;
    out.clear();
    for (double x : values[i]) out.push_back(finite_advantage(samples[i], x));
  }
}

}  // namespace rlreplay::engine
