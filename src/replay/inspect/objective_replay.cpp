#include "src/replay/inspect/objective_replay.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "format/foreign/context_slices.h"
#include "src/base/error.h"
#include "src/base/joined.h"
#include "src/replay/options/objective_config.h"

namespace rlreplay::replay {
namespace {

using Columns = std::vector<std::vector<double>>;

double rounded(double x) { return static_cast<float>(x); }

/// How far sums of many numbers in binary32 lie from the exact ones, of their size.
constexpr double kSums32 = 0x1p-19;
/// What the frameworks add to the variance that advantages are whitened by.
constexpr double kWhiteningEpsilon = 1e-8;

/// A sample without its tokens' ids, which the objective does not read.
Sample slim(const Sample& s) {
  Sample out;
  out.id = s.id;
  out.group = s.group;
  out.reward = s.reward;
  out.loss_mask = s.loss_mask;
  out.trajectory = s.trajectory;
  out.trajectory_tokens = s.trajectory_tokens;
  out.prompt_length = 1;
  out.tokens.resize(s.loss_mask.size() + 1);
  return out;
}

/// As the trainer shaped them, by sample.
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
  const bool divided = config.dialect == engine::Dialect::kSlime && config.normalize_std &&
                       config.estimator == engine::Estimator::kGrpo;
  return divided ? 1e6 : 1;
}

/// Rewards rounded to binary32, each group's less the mean that the recorded ones imply where it
/// lies as near the exact one as sums in binary32 do, else less the exact one.
std::vector<double> shaped_binary32(const engine::AdvantageConfig& config,
                                    const std::map<uint64_t, double>& recorded,
                                    std::vector<Sample> samples) {
  for (Sample& s : samples) s.reward = rounded(s.reward);
  engine::AdvantageConfig without_std = config;
  without_std.normalize_std = false;
  const std::vector<double> centred = engine::shaped_rewards(without_std, samples);
  std::vector<double> out = engine::shaped_rewards(config, samples);
  for (const std::vector<size_t>& group : engine::reward_groups(config, samples)) {
    double apart = 0, size = 0, known = 0;
    for (const size_t i : group) {
      size = std::max(size, std::abs(samples[i].reward));
      const auto at = recorded.find(samples[i].id);
      if (at == recorded.end()) continue;
      apart += at->second - out[i];
      ++known;
    }
    apart /= std::max(1.0, known);
    const double scale = shaping_scale(config, group, centred, out);
    if (!(std::abs(apart) <= std::abs(scale) * kSums32 * size)) continue;
    for (const size_t i : group) out[i] += apart;
  }
  return out;
}

/// The rewards of all samples of the rollout, shaped by their groups.
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
  const bool slime = setting.options.dialect == "slime";
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
  const engine::AdvantageConfig config = advantage_config(setting.options);
  const std::vector<double> shaped =
      setting.shape_binary32 ? shaped_binary32(config, recorded_rewards(rollout), samples)
                             : engine::shaped_rewards(config, samples);
  std::map<uint64_t, double> out;
  for (size_t i = 0; i < samples.size(); ++i) out.emplace(samples[i].id, shaped[i]);
  return out;
}

Columns rounded(const engine::TokenValues& values) {
  Columns out;
  for (const auto& sample : values) {
    std::vector<double>& row = out.emplace_back();
    row.reserve(sample.size());
    for (const double x : sample) row.push_back(rounded(x));
  }
  return out;
}

/// All samples of a rollout's steps in a row, and what the advantage reads of them.
class Training {
 public:
  Training(const RecordedRollout& rollout, const ObjectiveSetting& setting)
      : rollout_(rollout), setting_(setting), config_(advantage_config(setting.options)) {
    for (const RecordedStep& step : rollout.steps) {
      for (size_t i = 0; i < step.samples.size(); ++i) add(step, i);
      if (step.shaped && recorded_) {
        recorded_->insert(recorded_->end(), step.shaped->begin(), step.shaped->end());
      } else {
        recorded_.reset();
      }
      ends_.push_back(samples_.size());
    }
  }

  AdvantageValues run() {
    AdvantageValues out;
    try {
      shape(out);
      add_kl(out);
      add_reverse_kl(out);
      const auto& rewards = recorded_ ? recorded_ : out.shaped;
      if (!rewards) return out;
      engine::Returns returns = engine::compute_returns(config_, samples_, *rewards, targets_);
      out.returns = rounded(returns.returns);
      take_recorded_returns(returns.advantages);
      if (config_.normalize_advantages) whiten(returns.advantages);
      out.advantages = rounded(returns.advantages);
    } catch (const Error& error) {
      out.missing = error.what();
    }
    return out;
  }

 private:
  void add(const RecordedStep& step, size_t i) {
    samples_.push_back(slim(step.samples[i]));
    whole_.push_back(static_cast<int64_t>(step.samples[i].tokens.size()));
    SampleTargets& targets = targets_.emplace_back();
    const auto take = [&](const TokenColumn& column, std::vector<float>& to) {
      if (column) to = narrowed((*column)[i]);
    };
    take(setting_.options.use_rollout_logprobs ? step.rollout_log_probs
         : step.old_log_probs                  ? step.old_log_probs
                                               : step.log_probs,
         targets.old_log_probs);
    take(step.ref_log_probs, targets.ref_log_probs);
    take(step.values, targets.values);
    take(step.teacher_log_probs, targets.teacher_log_probs);
    take(step.reverse_kl, targets.reverse_kl);
    const size_t n = samples_.back().loss_mask.size();
    has_kl_ = has_kl_ && targets.old_log_probs.size() == n && targets.ref_log_probs.size() == n;
    has_teacher_ =
        has_teacher_ && targets.old_log_probs.size() == n && targets.teacher_log_probs.size() == n;
  }

  void shape(AdvantageValues& out) const {
    if (!rollout_.has_rewards()) {
      out.missing = "the dump holds no rewards as the reward function gave them";
      if (rollout_.data && rollout_.data->reward_components) {
        out.missing = "the rewards are dicts: --reward-key NAME takes one of their numbers (" +
                      joined(rollout_.data->reward_components->names, ", ") + ")";
      }
      return;
    }
    if (config_.shapes_rewards() && setting_.grouping == Grouping::kRecorded &&
        !rollout_.has_groups()) {
      out.missing = "the dump does not say which samples answer one prompt";
      return;
    }
    const auto by_id = shaped_by_id(rollout_, setting_);
    std::vector<double> shaped;
    for (const Sample& s : samples_) {
      const auto at = by_id.find(s.id);
      if (at == by_id.end()) {
        out.missing = "sample " + std::to_string(s.id) + " is in no rollout of the dump";
        return;
      }
      shaped.push_back(at->second);
    }
    out.shaped = std::move(shaped);
  }

  /// The estimate that the reward is charged with: 0 where there is no coefficient.
  void add_kl(AdvantageValues& out) const {
    if (config_.kl_coef != 0 && !has_kl_) return;
    Columns kl(samples_.size());
    for (size_t i = 0; i < samples_.size(); ++i) {
      kl[i].reserve(samples_[i].loss_mask.size());
      for (size_t t = 0; t < samples_[i].loss_mask.size(); ++t) {
        const double value =
            config_.kl_coef == 0
                ? 0
                : engine::kl_estimate(config_.kl_type, config_.dialect,
                                      targets_[i].old_log_probs[t], targets_[i].ref_log_probs[t])
                      .value;
        kl[i].push_back(rounded(value));
      }
    }
    out.kl = std::move(kl);
  }

  /// Miles takes a reverse KL that its rollout computed as it is.
  void add_reverse_kl(AdvantageValues& out) const {
    if (!has_teacher_ || config_.dialect == engine::Dialect::kMiles) return;
    Columns reverse;
    for (const SampleTargets& t : targets_) {
      std::vector<double>& row = reverse.emplace_back();
      for (size_t k = 0; k < t.old_log_probs.size(); ++k) {
        row.push_back(rounded(static_cast<double>(t.old_log_probs[k]) -
                              static_cast<double>(t.teacher_log_probs[k])));
      }
    }
    out.reverse_kl = std::move(reverse);
  }

  /// But for GAE and distillation returns are the advantages before they are whitened.
  void take_recorded_returns(engine::TokenValues& advantages) const {
    const bool charged =
        config_.opd_kl_coef && config_.estimator != engine::Estimator::kReinforcePlusPlusBaseline;
    if (config_.estimator == engine::Estimator::kPpo || charged) return;
    if (is_recorded(&RecordedStep::returns)) advantages = recorded(&RecordedStep::returns);
  }

  void whiten(engine::TokenValues& values) const {
    if (setting_.whitening == Whitening::kBinary32 && whiten_as_recorded(values)) return;
    if (setting_.whitening == Whitening::kNegative && whiten_to_nan(values)) return;
    if (setting_.whitening_ranks > 1) return whiten_by_rank(values);
    if (setting_.whitening != Whitening::kStep) return engine::whiten(samples_, values);
    size_t begin = 0;
    for (const size_t end : ends_) {
      engine::TokenValues part(values.begin() + static_cast<ptrdiff_t>(begin),
                               values.begin() + static_cast<ptrdiff_t>(end));
      engine::whiten(std::span(samples_).subspan(begin, end - begin), part);
      std::ranges::move(part, values.begin() + static_cast<ptrdiff_t>(begin));
      begin = end;
    }
  }

  /// With the mean and the scale that the recorded advantages imply, where these lie as near the
  /// exact ones as sums in binary32 do. Otherwise false, and nothing is changed.
  bool whiten_as_recorded(engine::TokenValues& values) const {
    if (!is_recorded(&RecordedStep::advantages)) return false;
    const Moments of = moments(values, recorded(&RecordedStep::advantages));
    const double scale = of.covariance / of.variance, mean = of.mean - of.image / scale;
    const double variance = 1 / (scale * scale) - kWhiteningEpsilon;
    const double slack = variance_slack(of);
    const bool near = std::abs(mean - of.mean) <= kSums32 * (std::abs(of.mean) + of.deviation()) &&
                      std::abs(variance - of.variance) <= slack;
    if (!near || !(scale > 0)) return false;
    for (std::vector<double>& sample : values) {
      for (double& x : sample) x = (x - mean) * scale;
    }
    return true;
  }

  /// A variance below 0 has no root: every advantage is NaN. False where sums in binary32 cannot
  /// end there.
  bool whiten_to_nan(engine::TokenValues& values) const {
    const Moments of = moments(values, values);
    if (!(of.variance + kWhiteningEpsilon <= variance_slack(of)) || has_exact_sums(values)) {
      return false;
    }
    for (std::vector<double>& sample : values) {
      std::ranges::fill(sample, std::numeric_limits<double>::quiet_NaN());
    }
    return true;
  }

  /// Whether sums in binary32 round nothing, so that their variance is the exact one.
  bool has_exact_sums(const engine::TokenValues& values) const {
    double n = 0, sum = 0, squares = 0;
    for (size_t i = 0; i < samples_.size(); ++i) {
      for (size_t t = 0; t < values[i].size(); ++t) {
        if (samples_[i].loss_mask[t] == 0) continue;
        ++n, sum += values[i][t], squares += values[i][t] * values[i][t];
      }
    }
    const double mean = sum / n;
    const std::array made = {sum, squares, mean, squares / n, mean * mean};
    return std::ranges::all_of(made, [](double x) { return rounded(x) == x; });
  }

  /// Of unmasked tokens: a column x, and what it became.
  struct Moments {
    double mean = 0, image = 0, variance = 0, covariance = 0;
    double deviation() const { return std::sqrt(variance); }
  };

  /// How far E[x^2] - E[x]^2 of sums in binary32 can lie from the variance.
  static double variance_slack(const Moments& of) {
    return kSums32 * (of.mean * of.mean + of.variance + kWhiteningEpsilon);
  }

  Moments moments(const engine::TokenValues& x, const engine::TokenValues& image) const {
    Moments out;
    double n = 0;
    const auto each = [&](const auto& take) {
      for (size_t i = 0; i < samples_.size(); ++i) {
        for (size_t t = 0; t < x[i].size(); ++t) {
          if (samples_[i].loss_mask[t] != 0) take(x[i][t], image[i][t]);
        }
      }
    };
    each([&](double a, double b) { ++n, out.mean += a, out.image += b; });
    out.mean /= n;
    out.image /= n;
    each([&](double a, double b) {
      out.variance += (a - out.mean) * (a - out.mean);
      out.covariance += (a - out.mean) * (b - out.image);
    });
    out.variance /= std::max(1.0, n - 1);
    out.covariance /= std::max(1.0, n - 1);
    return out;
  }

  bool is_recorded(TokenColumn RecordedStep::*column) const {
    return std::ranges::all_of(rollout_.steps, [&](const RecordedStep& step) {
      return is_whole(step.*column, step.samples);
    });
  }

  /// Of all samples of the steps in a row.
  engine::TokenValues recorded(TokenColumn RecordedStep::*column) const {
    engine::TokenValues out;
    for (const RecordedStep& step : rollout_.steps) {
      out.insert(out.end(), (step.*column)->begin(), (step.*column)->end());
    }
    return out;
  }

  /// Each rank of context parallelism whitens the slices that it holds by itself.
  void whiten_by_rank(engine::TokenValues& values) const {
    for (int64_t rank = 0; rank < setting_.whitening_ranks; ++rank) {
      std::vector<Sample> slices;
      engine::TokenValues part;
      std::vector<std::vector<size_t>> places(samples_.size());
      for (size_t i = 0; i < samples_.size(); ++i) {
        places[i] = places_of(i, rank);
        slices.push_back(slice(samples_[i], places[i]));
        part.push_back(slice(values[i], places[i]));
      }
      engine::whiten(slices, part);
      for (size_t i = 0; i < part.size(); ++i) {
        for (size_t k = 0; k < part[i].size(); ++k) values[i][places[i][k]] = part[i][k];
      }
    }
  }

  std::vector<size_t> places_of(size_t i, int64_t rank) const {
    std::vector<size_t> out;
    const auto response = static_cast<int64_t>(samples_[i].loss_mask.size());
    for (const auto& range : format_slices(whole_[i], response, rank)) {
      for (int64_t t = range.begin; t < range.end; ++t) out.push_back(static_cast<size_t>(t));
    }
    return out;
  }

  std::array<foreign::ResponseRange, 2> format_slices(int64_t total, int64_t response,
                                                      int64_t rank) const {
    return foreign::response_slices(total, response, total, setting_.whitening_ranks, rank);
  }

  template <class T>
  static std::vector<T> slice(const std::vector<T>& values, const std::vector<size_t>& places) {
    std::vector<T> out;
    for (const size_t place : places) {
      if (place < values.size()) out.push_back(values[place]);
    }
    return out;
  }

  static Sample slice(const Sample& s, const std::vector<size_t>& places) {
    Sample out = s;
    out.loss_mask = slice(s.loss_mask, places);
    out.tokens.resize(places.size() + 1);
    return out;
  }

  const RecordedRollout& rollout_;
  const ObjectiveSetting& setting_;
  engine::AdvantageConfig config_;
  std::vector<Sample> samples_;
  std::vector<int64_t> whole_;  // tokens of each, prompt included
  std::vector<SampleTargets> targets_;
  std::vector<size_t> ends_;  // of the steps
  bool has_kl_ = true, has_teacher_ = true;
  std::optional<std::vector<double>> recorded_ = std::vector<double>();
};

/// What the losses of a step read.
struct LossInputs {
  std::vector<Sample> samples;
  std::vector<SampleTargets> targets;
  std::vector<Scores> scores;
  std::vector<bool> known;  // whether the policy's own and old log-probabilities are there
  bool whole = true;        // of every sample, with advantages
};

LossInputs loss_inputs(const RecordedStep& step, const TokenColumn& advantages,
                       const ObjectiveSetting& setting, bool policy_is_old) {
  LossInputs in;
  const TokenColumn& current = policy_is_old ? step.old_log_probs : step.log_probs;
  const TokenColumn& old =
      setting.options.use_rollout_logprobs ? step.rollout_log_probs : step.old_log_probs;
  for (size_t i = 0; i < step.samples.size(); ++i) {
    const size_t n = step.samples[i].loss_mask.size();
    in.samples.push_back(slim(step.samples[i]));
    in.samples.back().rollout_log_probs = step.samples[i].rollout_log_probs;
    Scores& scores = in.scores.emplace_back();
    SampleTargets& targets = in.targets.emplace_back();
    const auto take = [&](const TokenColumn& column, std::vector<float>& to) {
      if (column && (*column)[i].size() == n) to = narrowed((*column)[i]);
      return to.size() == n;
    };
    bool known = take(current, scores.log_probs);
    if (!take(step.entropy, scores.entropy)) scores.entropy.assign(n, 0);
    // Without old log-probabilities the policy is its own past, in every sample of the step.
    if (old) known = take(old, targets.old_log_probs) && known;
    take(step.ref_log_probs, targets.ref_log_probs);
    known = take(advantages, targets.advantages) && known;
    in.known.push_back(known);
    in.whole = in.whole && known;
  }
  return in;
}

/// What the policy's recorded terms are of.
engine::ObjectiveConfig term_config(engine::ObjectiveConfig config, bool early) {
  if (early) {
    config.tis.reset();
    config.opsm_delta.reset();
  }
  return config;
}

/// Of the tokens of a sample alone: no weight of the batch enters.
void add_terms(const engine::ObjectiveConfig& config, const LossInputs& in, size_t i,
               LossValues& out) {
  const auto tokens = engine::sample_input(in.samples[i], in.targets[i], 0, in.scores[i]);
  const engine::SequenceTerms sequence = engine::sequence_terms(config, tokens);
  for (const engine::TokenInput& token : tokens) {
    (*out.policy_loss)[i].push_back(
        rounded(engine::token_objective(config, token, sequence).policy));
    (*out.policy_kl)[i].push_back(rounded(engine::policy_kl(config, token, sequence)));
  }
}

std::vector<double> weights(engine::Reducer reducer, const RecordedRollout& rollout,
                            const RecordedStep& step, const LossInputs& in,
                            Denominators denominators) {
  if (denominators == Denominators::kStep) {
    return engine::sample_weights(reducer, in.samples, step.trajectories());
  }
  if (denominators != Denominators::kRollout) {
    std::vector<Sample> of = in.samples;
    for (Sample& s : of) {
      s.trajectory_tokens.reset();
      if (denominators == Denominators::kSamples) s.trajectory.reset();
      if (denominators == Denominators::kUnmasked) std::ranges::fill(s.loss_mask, uint8_t{1});
    }
    return engine::sample_weights(reducer, of);
  }
  std::vector<Sample> of;
  std::map<uint64_t, size_t> places;
  for (const RecordedStep& other : rollout.steps) {
    for (const Sample& s : other.samples) {
      places.emplace(s.id, of.size());
      of.push_back(slim(s));
    }
  }
  const std::vector<double> all = engine::sample_weights(reducer, of);
  std::vector<double> out;
  for (const Sample& s : in.samples) out.push_back(all[places.at(s.id)]);
  return out;
}

/// The critic's loss: of a rollout's first step the values are those before its update.
void add_value_loss(const RecordedStep& step, const TokenColumn& returns,
                    const std::vector<double>& weights, double clip, LossValues& out) {
  const TokenColumn& current =
      !step.current_values && step.id.step == 0 ? step.values : step.current_values;
  if (!is_whole(current, step.samples) || !is_whole(step.values, step.samples) ||
      !is_whole(returns, step.samples)) {
    return;
  }
  double loss = 0, clipped = 0;
  for (const size_t i : by_id(step.samples)) {
    double sample = 0, share = 0;
    const std::vector<float> now = narrowed((*current)[i]), before = narrowed((*step.values)[i]),
                             goal = narrowed((*returns)[i]);
    for (size_t t = 0; t < step.samples[i].loss_mask.size(); ++t) {
      if (step.samples[i].loss_mask[t] == 0) continue;
      const engine::ValueTerms terms = engine::value_objective(clip, now[t], before[t], goal[t]);
      sample += weights[i] * terms.loss;
      if (terms.clipped) share += weights[i];
    }
    loss += sample;
    clipped += share;
  }
  out.value_loss = loss;
  out.value_clip_fraction = clipped;
}

/// Why losses cannot be computed; empty where they can.
std::string missing_inputs(const engine::ObjectiveConfig& config, const RecordedStep& step,
                           const TokenColumn& advantages, bool policy_is_old, bool rollout_as_old) {
  if (!is_whole(policy_is_old ? step.old_log_probs : step.log_probs, step.samples)) {
    return "the policy's log-probabilities of this step are not recorded";
  }
  if (!is_whole(advantages, step.samples)) return "the advantages are not recorded";
  if (config.reads_reference() && !is_whole(step.ref_log_probs, step.samples)) {
    return "--use-kl-loss needs the reference's log-probabilities, which are not recorded";
  }
  if (rollout_as_old && !is_whole(step.rollout_log_probs, step.samples)) {
    return "the rollout's log-probabilities are not recorded";
  }
  if (config.tis && !is_whole(step.rollout_log_probs, step.samples)) {
    return "--use-tis needs the rollout's log-probabilities, which are not recorded";
  }
  return {};
}

}  // namespace

AdvantageValues replay_advantages(const RecordedRollout& rollout, const ObjectiveSetting& setting) {
  return Training(rollout, setting).run();
}

LossValues replay_losses(const RecordedRollout& rollout, const RecordedStep& step,
                         const ComputedColumns& computed, const ObjectiveSetting& setting) {
  LossValues out;
  const engine::ObjectiveConfig config = objective_config(setting.options);
  const TokenColumn& advantages = step.advantages ? step.advantages : computed.advantages;
  // Before the rollout's first update the policy is the one that the old ones are of. A trainer
  // that takes the sampler's as old ones keeps those of each step's own forward pass instead.
  const bool rollout_as_old = setting.options.use_rollout_logprobs;
  out.policy_is_old =
      !step.log_probs && step.old_log_probs && (step.id.step == 0 || rollout_as_old);
  out.has_entropy = is_whole(step.entropy, step.samples);
  out.missing = missing_inputs(config, step, advantages, out.policy_is_old, rollout_as_old);
  out.has_total = config.entropy_coef == 0 || out.has_entropy;
  const LossInputs in = loss_inputs(step, advantages, setting, out.policy_is_old);
  out.policy_loss.emplace(in.samples.size());
  out.policy_kl.emplace(in.samples.size());
  const engine::ObjectiveConfig of_terms = term_config(config, setting.early_term);
  for (size_t i = 0; i < in.samples.size(); ++i) {
    const bool tis = !of_terms.tis || !in.samples[i].rollout_log_probs.empty();
    if (in.known[i] && tis) add_terms(of_terms, in, i, out);
  }
  const auto of = weights(config.reducer, rollout, step, in, setting.denominators);
  add_value_loss(step, step.returns ? step.returns : computed.returns, of,
                 setting.options.value_clip, out);
  if (!out.missing.empty() || !in.whole) return out;
  try {
    out.losses = engine::evaluate_losses(config, in.samples, in.targets, of, in.scores);
  } catch (const Error& error) {
    out.missing = error.what();
  }
  return out;
}

}  // namespace rlreplay::replay
