#include "src/engine/advantage.h"

#include <cmath>
#include <map>
#include <string>

#include "src/base/error.h"

namespace rlreplay::engine {
namespace {

/// Rewards after the group's mean, and deviation where asked for.
std::vector<double> shaped_rewards(const AdvantageConfig& config, std::span<const Sample> samples) {
  std::map<uint64_t, std::vector<size_t>> groups;
  for (const size_t i : by_id(samples)) groups[samples[i].group].push_back(i);
  std::vector<double> out(samples.size());
  for (const auto& [id, members] : groups) {
    const double n = static_cast<double>(members.size());
    double mean = 0, square = 0;
    for (size_t i : members) mean += samples[i].reward;
    mean /= n;
    for (size_t i : members) {
      const double d = samples[i].reward - mean;
      square += d * d;
    }
    // Of one sample torch's deviation is NaN, and slime's advantage with it; Miles skips it.
    double deviation = std::sqrt(square / (n - 1));
    const bool skip = config.dialect == Dialect::kMiles && (members.size() == 1 || deviation == 0);
    const bool divide = config.estimator == Estimator::kGrpo && config.normalize_std && !skip;
    for (size_t i : members) {
      out[i] = samples[i].reward - mean;
      if (divide) out[i] /= deviation + 1e-6;
    }
  }
  return out;
}

void whiten(std::span<const Sample> samples, std::vector<std::vector<double>>& values) {
  double n = 0, sum = 0, squares = 0;
  for (const size_t i : by_id(samples)) {
    double sample_sum = 0, sample_squares = 0;
    for (size_t t = 0; t < values[i].size(); ++t) {
      if (samples[i].loss_mask[t] == 0) continue;
      n += 1;
      sample_sum += values[i][t];
      sample_squares += values[i][t] * values[i][t];
    }
    sum += sample_sum;
    squares += sample_squares;
  }
  const double mean = sum / n;
  const double variance = (squares / n - mean * mean) * (n / (n - 1));
  const double scale = 1 / std::sqrt(variance + 1e-8);
  for (auto& sample : values) {
    for (double& x : sample) x = (x - mean) * scale;
  }
}

}  // namespace

void set_advantages(const AdvantageConfig& config, std::span<const Sample> samples,
                    std::span<SampleTargets> targets) {
  std::vector<double> rewards;
  if (config.normalize_rewards && config.estimator != Estimator::kPolicyGradient) {
    rewards = shaped_rewards(config, samples);
  } else {
    for (const Sample& s : samples) rewards.push_back(s.reward);
  }
  std::vector<std::vector<double>> values(samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    values[i].assign(static_cast<size_t>(samples[i].response_length()), rewards[i]);
    if (config.kl_coef == 0 || config.estimator == Estimator::kGrpo) continue;
    for (size_t t = 0; t < values[i].size(); ++t) {
      const Kl kl = kl_estimate(config.kl_type, config.dialect, targets[i].old_log_probs[t],
                                targets[i].ref_log_probs[t]);
      values[i][t] -= static_cast<double>(config.kl_coef) * static_cast<double>(kl.value);
    }
  }
  if (config.normalize_advantages) whiten(samples, values);
  for (size_t i = 0; i < samples.size(); ++i) {
    auto& out = targets[i].advantages;
    out.clear();
    for (double x : values[i]) {
      if (!std::isfinite(static_cast<float>(x))) {
        throw Error(ErrorCode::kUsage,
                    "the advantage of sample " + std::to_string(samples[i].id) +
                        " is not finite: its group has one member or its reward is not a number; "
                        "use at least two samples a prompt or switch the deviation off");
      }
      out.push_back(static_cast<float>(x));
    }
  }
}

}  // namespace rlreplay::engine
