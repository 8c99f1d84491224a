#include <algorithm>
#include <bit>
#include <cmath>

#include "src/replay/inspect/objective_parts.h"
#include "src/replay/options/objective_config.h"

namespace rlreplay::replay {
namespace {

/// The rewards as the trainer shaped them, by sample id; those that were recorded.
std::map<uint64_t, double> recorded_rewards(const RecordedRollout& rollout) {
  std::map<uint64_t, double> out;
  for (const RecordedStep& step : rollout.steps) {
    for (size_t i = 0; step.shaped && i < step.samples.size(); ++i) {
      out.emplace(step.samples[i].id, (*step.shaped)[i]);
    }
  }
  return out;
}

/// What a distance of a group's rewards from their mean became, of the distance.
double shaping_scale(const engine::AdvantageConfig& config, std::span<const size_t> group,
                     std::span<const double> centred, std::span<const double> shaped) {
  const auto farthest =
      std::ranges::max_element(group, {}, [&](size_t i) { return std::abs(centred[i]); });
  if (centred[*farthest] != 0) return shaped[*farthest] / centred[*farthest];
  // Of equal rewards nothing is left but the rounding of their mean, which slime divides by 1e-6;
  // Miles too, where the deviation from that mean is not 0 in binary32.
  return config.normalize_std && config.estimator == engine::Estimator::kGrpo ? 1e6 : 1;
}

/// Whether sums of these numbers, each a binary32, are exact in binary32 in every order: all are
/// multiples of one power of 2, of which their sizes together are no more than 2^24.
bool sums_exactly(std::span<const double> numbers) {
  int unit = 1024;
  double total = 0;
  for (const double x : numbers) {
    if (x == 0) continue;
    int exponent = 0;
    const double digits = std::ldexp(std::abs(std::frexp(x, &exponent)), 24);
    unit = std::min(unit, exponent - 24 + std::countr_zero(static_cast<uint32_t>(digits)));
    total += std::abs(x);
  }
  return total <= std::ldexp(1.0, std::min(unit, 999) + 24);
}

/// How far the mean of a group's rewards in binary32, summed in whatever order, can lie from the
/// exact one: a sum of k of them is off by the rounding of as many times the largest.
double mean_slack(std::span<const double> rewards) {
  constexpr double kRounding = 0x1p-24;
  const auto n = static_cast<double>(rewards.size());
  double size = 0, sum = 0;
  for (const double r : rewards) {
    size = std::max(size, std::abs(r));
    sum += r;
  }
  if (!std::isfinite(sum)) return kSums32 * size;
  if (!sums_exactly(rewards)) return std::min(kSums32, (n / 2 + 2) * kRounding) * size;
  return rounded(sum / n) * n == sum ? 0 : 2 * kRounding * std::abs(sum / n);
}

/// Rewards rounded to binary32, each group's less the mean that the recorded ones imply where it
/// lies as near the exact one as that of these rewards does in binary32, else less the exact one.
std::vector<double> shaped_binary32(const engine::AdvantageConfig& config,
                                    const std::map<uint64_t, double>& recorded,
                                    std::vector<Sample> samples) {
  for (Sample& s : samples) s.reward = rounded(s.reward);
  engine::AdvantageConfig without_std = config;
  without_std.normalize_std = false;
  const std::vector<double> centred = engine::shaped_rewards(without_std, samples);
  std::vector<double> out = engine::shaped_rewards(config, samples);
  for (const std::vector<size_t>& group : engine::reward_groups(config, samples)) {
    double apart = 0, known = 0, size = 0;
    std::vector<double> rewards;
    for (const size_t i : group) {
      rewards.push_back(samples[i].reward);
      size = std::max(size, std::abs(samples[i].reward));
      const auto at = recorded.find(samples[i].id);
      if (at == recorded.end()) continue;
      apart += at->second - out[i];
      ++known;
    }
    apart /= std::max(1.0, known);
    const double scale = shaping_scale(config, group, centred, out);
    // Where some are not recorded, what is off in the deviation does not cancel.
    const bool whole = known == static_cast<double>(group.size());
    const double slack = whole ? mean_slack(rewards) : kSums32 * size;
    if (!(std::abs(apart) <= std::abs(scale) * slack)) continue;
    for (const size_t i : group) out[i] += apart;
  }
  return out;
}

}  // namespace

std::map<uint64_t, double> shaped_by_id(const RecordedRollout& rollout,
                                        const ObjectiveSetting& setting) {
  std::vector<Sample> samples;
  for (const Sample& s : rollout.samples) {
    Sample& added = samples.emplace_back();
    added.id = s.id;
    added.group = s.group;
    added.reward = s.reward;
    added.trajectory = s.trajectory;
  }
  const bool slime = dialect(setting.options) == engine::Dialect::kSlime;
  std::map<uint64_t, uint64_t> trajectories;
  for (const RecordedStep& step : rollout.steps) {
    for (const Sample& s : step.samples) {
      if (s.trajectory) trajectories.emplace(s.id, *s.trajectory);
    }
  }
  for (Sample& s : samples) {
    const auto at = trajectories.find(s.id);
    if (at != trajectories.end()) s.trajectory = at->second;
    if (slime && setting.grouping != Grouping::kRecorded) s.trajectory.reset();
  }
  const std::vector<size_t> order = by_id(samples);
  for (size_t place = 0; place < order.size(); ++place) {
    uint64_t& group = samples[order[place]].group;
    if (setting.grouping == Grouping::kWhole) group = 0;
    if (setting.grouping == Grouping::kConsecutive) group = place / setting.group_size;
  }
  engine::AdvantageConfig config = advantage_config(setting.options);
  if (!setting.sizes_known) config.announced_samples = 0;
  const std::vector<double> shaped =
      setting.shape_binary32 ? shaped_binary32(config, recorded_rewards(rollout), samples)
                             : engine::shaped_rewards(config, samples);
  std::map<uint64_t, double> out;
  for (size_t i = 0; i < samples.size(); ++i) out.emplace(samples[i].id, shaped[i]);
  return out;
}

}  // namespace rlreplay::replay
