#include "src/objective/advantage.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "src/base/error.h"
#include "src/base/number_text.h"
#include "src/objective/wide_inputs.h"

namespace rlreplay::engine {
namespace {

[[noreturn]] void refuse(const Sample& s, const std::string& what) {
  throw Error(ErrorCode::kUsage, "sample " + std::to_string(s.id) + " " + what);
}

/// The sum of term(x) over the unmasked tokens: a chain a sample, then one over samples by id.
template <class Term>
double sum_unmasked(std::span<const Sample> samples, const TokenValues& values, const Term& term) {
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

/// Rewards that count in one group, and the samples that each is the reward of.
struct Group {
  std::vector<double> rewards;
  std::vector<std::vector<size_t>> owners;
};

/// Whether a trajectory has several samples. slime takes each for one of those that its options
/// announce, and all for one group where they are not as many.
bool has_compact(std::span<const Sample> samples) {
  std::set<std::pair<bool, uint64_t>> seen;
  return std::ranges::any_of(
      samples, [&](const Sample& s) { return !seen.insert(trajectory_of(s)).second; });
}

/// The groups in which rewards count, by ascending group, their rewards by ascending sample. Under
/// Miles the samples of a trajectory share one reward. Errors: kUsage where they do not.
std::vector<Group> groups_of(const AdvantageConfig& config, std::span<const Sample> samples) {
  const Dialect dialect = config.dialect;
  const bool compact = dialect == Dialect::kSlime && has_compact(samples);
  const bool announced = compact && std::ssize(samples) == config.announced_samples;
  uint64_t place = 0;
  std::map<uint64_t, Group> groups;
  std::map<std::pair<uint64_t, std::pair<bool, uint64_t>>, size_t> places;
  for (const size_t i : by_id(samples)) {
    const Sample& s = samples[i];
    const uint64_t by_place = announced ? place++ / static_cast<uint64_t>(config.group_size) : 0;
    Group& group = groups[compact ? by_place : s.group];
    if (dialect == Dialect::kMiles && s.trajectory) {
      const auto [at, fresh] =
          places.try_emplace({s.group, trajectory_of(s)}, group.rewards.size());
      if (!fresh) {
        if (group.rewards[at->second] != s.reward) {
          refuse(s, "has the reward " + shortest(s.reward) + " and its trajectory " +
                        shortest(group.rewards[at->second]) +
                        ": under --dialect miles the samples of a trajectory share one");
        }
        group.owners[at->second].push_back(i);
        continue;
      }
    }
    group.rewards.push_back(s.reward);
    group.owners.push_back({i});
  }
  std::vector<Group> out;
  for (auto& [id, group] : groups) out.push_back(std::move(group));
  return out;
}

/// The first reward and the mean distance from it; of rewards that are not finite, of which the
/// first may be one, what their sum gives.
double mean_of(std::span<const double> rewards) {
  const double n = static_cast<double>(rewards.size()), first = rewards[0];
  double sum = 0, plain = 0;
  for (const double r : rewards) {
    sum += r - first;
    plain += r;
  }
  const double mean = first + sum / n;
  return std::isfinite(mean) ? mean : plain / n;
}

/// Rewards less their mean, over their deviation where the configuration asks for it.
void shape(const AdvantageConfig& config, std::vector<double>& rewards) {
  const double n = static_cast<double>(rewards.size()), mean = mean_of(rewards);
  double square = 0;
  for (double& r : rewards) {
    r = r - mean;
    square += r * r;
  }
  if (config.estimator != Estimator::kGrpo || !config.normalize_std) return;
  // Of one sample, and of an infinite reward, torch's deviation is NaN, and slime's advantages with
  // it; Miles skips it.
  const double deviation = std::sqrt(square / (n - 1));
  if (config.dialect == Dialect::kMiles && !(deviation > 0)) return;
  for (double& r : rewards) r /= deviation + 1e-6;
}

void need(const Sample& s, const std::vector<double>& column, const std::string& what) {
  const auto n = static_cast<size_t>(s.response_length());
  if (column.size() == n) return;
  refuse(s, "has " + std::to_string(n) + " response tokens and " + std::to_string(column.size()) +
                " values of " + what);
}

void check_columns(const AdvantageConfig& config, const Sample& s, const WideTargets& t) {
  if (s.loss_mask.size() != static_cast<size_t>(s.response_length())) {
    refuse(s, "has a mask of " + std::to_string(s.loss_mask.size()) + " tokens; its response has " +
                  std::to_string(s.response_length()));
  }
  if (config.reads_kl()) {
    need(s, t.old_log_probs, "the old log-probability (--kl-coef reads it)");
    need(s, t.ref_log_probs, "the reference log-probability (--kl-coef reads it)");
  }
  if (config.estimator == Estimator::kPpo) {
    need(s, t.values, "the critic (--advantage-estimator ppo reads recorded ones)");
  }
  if (config.opd_kl_coef && t.reverse_kl.empty()) {
    need(s, t.old_log_probs, "the old log-probability (--use-opd reads it)");
    need(s, t.teacher_log_probs, "the teacher's log-probability (--use-opd reads recorded ones)");
  } else if (config.opd_kl_coef) {
    need(s, t.reverse_kl, "the reverse KL (--use-opd reads it)");
  }
}

/// What each token's reward is charged with; zeros without a coefficient.
std::vector<double> kl_penalties(const AdvantageConfig& config, const Sample& s,
                                 const WideTargets& t) {
  std::vector<double> out(s.loss_mask.size());
  for (size_t k = 0; config.reads_kl() && k < out.size(); ++k) {
    const Kl kl =
        kl_of_difference(config.kl_type, config.dialect, t.old_log_probs[k] - t.ref_log_probs[k]);
    out[k] = config.kl_coef * kl.value;
  }
  return out;
}

/// REINFORCE++: the reward at the last unmasked token, and all later ones discounted. slime charges
/// no KL for masked tokens.
std::vector<double> discounted(const AdvantageConfig& config, const Sample& s, double reward,
                               std::vector<double> penalties) {
  const auto last = std::find(s.loss_mask.rbegin(), s.loss_mask.rend(), uint8_t{1});
  if (last == s.loss_mask.rend()) {
    refuse(s,
           "is masked throughout: --advantage-estimator reinforce_plus_plus has no token to give "
           "its reward to");
  }
  const auto end = static_cast<size_t>(s.loss_mask.rend() - last) - 1;
  double next = 0;
  for (size_t t = penalties.size(); t-- > 0;) {
    const bool charged = config.dialect == Dialect::kMiles || s.loss_mask[t] != 0;
    double gain = charged ? -penalties[t] : 0;
    if (t == end) gain += reward;
    next = gain + config.gamma * next;
    penalties[t] = next;
  }
  return penalties;
}

/// Generalized advantage estimation. slime takes every token for a step of the process and gives
/// the reward to `rewarded`; Miles leaves masked ones out.
std::vector<double> gae(const AdvantageConfig& config, const Sample& s, double reward,
                        const WideTargets& t, const std::vector<double>& penalties,
                        size_t rewarded) {
  std::vector<double> out(penalties.size());
  double next_value = 0, advantage = 0;
  bool is_last = true;
  for (size_t k = out.size(); k-- > 0;) {
    if (config.dialect == Dialect::kMiles && s.loss_mask[k] == 0) continue;
    double gain = -penalties[k];
    if (config.dialect == Dialect::kSlime ? k == rewarded : is_last) gain += reward;
    is_last = false;
    const double value = t.values[k];
    const double delta = (gain + config.gamma * next_value) - value;
    advantage = delta + (config.gamma * config.lambda) * advantage;
    next_value = value;
    out[k] = advantage;
  }
  return out;
}

/// Adds one sample's returns and its advantages before whitening.
void add_returns(const AdvantageConfig& config, const Sample& s, double reward,
                 const WideTargets& t, size_t rewarded, Returns& out) {
  std::vector<double> advantages = kl_penalties(config, s, t), returns;
  switch (config.estimator) {
    case Estimator::kReinforcePlusPlus:
      advantages = discounted(config, s, reward, std::move(advantages));
      break;
    case Estimator::kPpo:
      advantages = gae(config, s, reward, t, advantages, rewarded);
      for (size_t k = 0; k < advantages.size(); ++k) {
        const bool left_out = config.dialect == Dialect::kMiles && s.loss_mask[k] == 0;
        returns.push_back(left_out ? 0 : advantages[k] + t.values[k]);
      }
      break;
    case Estimator::kGrpo:
    case Estimator::kReinforcePlusPlusBaseline:
    case Estimator::kPolicyGradient:
      for (double& x : advantages) x = reward - x;
  }
  if (config.estimator != Estimator::kPpo) returns = advantages;
  charge_reverse_kl(config, t, advantages);
  // The baseline's returns are one with its advantages: both frameworks charge them too.
  if (config.estimator == Estimator::kReinforcePlusPlusBaseline) returns = advantages;
  out.returns.push_back(std::move(returns));
  out.advantages.push_back(std::move(advantages));
}

WideTargets widened(const SampleTargets& t) {
  const auto wide = [](const std::vector<float>& x) {
    return std::vector<double>(x.begin(), x.end());
  };
  return {wide(t.old_log_probs), wide(t.ref_log_probs), wide(t.values), wide(t.teacher_log_probs),
          wide(t.reverse_kl)};
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

void charge_reverse_kl(const AdvantageConfig& config, const WideTargets& t,
                       std::vector<double>& advantages) {
  for (size_t k = 0; config.opd_kl_coef && k < advantages.size(); ++k) {
    const double reverse =
        t.reverse_kl.empty() ? t.old_log_probs[k] - t.teacher_log_probs[k] : t.reverse_kl[k];
    advantages[k] -= *config.opd_kl_coef * reverse;
  }
}

std::vector<double> shaped_rewards(const AdvantageConfig& config, std::span<const Sample> samples) {
  std::vector<double> out;
  for (const Sample& s : samples) out.push_back(s.reward);
  if (!config.shapes_rewards()) return out;
  for (Group& group : groups_of(config, samples)) {
    shape(config, group.rewards);
    for (size_t k = 0; k < group.rewards.size(); ++k) {
      for (const size_t i : group.owners[k]) out[i] = group.rewards[k];
    }
  }
  return out;
}

std::vector<std::vector<size_t>> reward_groups(const AdvantageConfig& config,
                                               std::span<const Sample> samples) {
  std::vector<std::vector<size_t>> out;
  if (!config.shapes_rewards()) return out;
  for (const Group& group : groups_of(config, samples)) {
    std::vector<size_t>& members = out.emplace_back();
    for (const std::vector<size_t>& owners : group.owners) {
      members.insert(members.end(), owners.begin(), owners.end());
    }
  }
  return out;
}

Returns compute_returns(const AdvantageConfig& config, std::span<const Sample> samples,
                        std::span<const double> rewards, std::span<const SampleTargets> targets,
                        std::span<const size_t> rewarded) {
  std::vector<WideTargets> wide;
  for (const SampleTargets& t : targets) wide.push_back(widened(t));
  return compute_returns(config, samples, rewards, wide, rewarded);
}

Returns compute_returns(const AdvantageConfig& config, std::span<const Sample> samples,
                        std::span<const double> rewards, std::span<const WideTargets> targets,
                        std::span<const size_t> rewarded) {
  Returns out;
  for (size_t i = 0; i < samples.size(); ++i) {
    check_columns(config, samples[i], targets[i]);
    const size_t place = rewarded.empty() ? samples[i].loss_mask.size() - 1 : rewarded[i];
    add_returns(config, samples[i], rewards[i], targets[i], place, out);
  }
  return out;
}

void whiten(std::span<const Sample> samples, TokenValues& values) {
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
  constexpr double kEpsilon = 1e-8;  // slime, slime/utils/distributed_utils.py
  const double scale = 1 / std::sqrt(square / std::max(1.0, n - 1) + kEpsilon);
  for (auto& sample : values) {
    for (double& x : sample) x = (x - mean) * scale;
  }
}

void set_advantages(const AdvantageConfig& config, std::span<const Sample> samples,
                    std::span<SampleTargets> targets) {
  for (const Sample& s : samples) {
    if (std::isfinite(static_cast<float>(s.reward))) continue;
    throw Error(ErrorCode::kUsage, "the reward of sample " + std::to_string(s.id) +
                                       " is not a finite binary32 number");
  }
  set_advantages(config, samples, shaped_rewards(config, samples), targets);
}

void set_advantages(const AdvantageConfig& config, std::span<const Sample> samples,
                    std::span<const double> rewards, std::span<SampleTargets> targets) {
  TokenValues values = compute_returns(config, samples, rewards, targets).advantages;
  if (config.normalize_advantages) whiten(samples, values);
  for (size_t i = 0; i < samples.size(); ++i) {
    auto& out = targets[i].advantages;
    out.clear();
    for (double x : values[i]) out.push_back(finite_advantage(samples[i], x));
  }
}

}  // namespace rlreplay::engine
