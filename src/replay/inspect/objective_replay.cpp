#include "src/replay/inspect/objective_replay.h"

#include <algorithm>
#include <map>

#include "format/foreign/context_slices.h"
#include "src/base/error.h"
#include "src/replay/run_config.h"

namespace rlreplay::replay {
namespace {

using engine::Sample;
using engine::SampleTargets;
using Columns = std::vector<std::vector<float>>;

/// A sample without its tokens' ids, which the objective does not read.
Sample slim(const Sample& s) {
  Sample out;
  out.id = s.id;
  out.group = s.group;
  out.reward = s.reward;
  out.loss_mask = s.loss_mask;
  out.prompt_length = 1;
  out.tokens.resize(s.loss_mask.size() + 1);
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
  }
  const std::vector<size_t> order = engine::by_id(samples);
  for (size_t place = 0; place < order.size(); ++place) {
    uint64_t& group = samples[order[place]].group;
    if (setting.grouping == Grouping::kWhole) group = 0;
    if (setting.grouping == Grouping::kConsecutive) group = place / setting.group_size;
  }
  const std::vector<double> shaped =
      engine::shaped_rewards(advantage_config(setting.options), samples);
  std::map<uint64_t, double> out;
  for (size_t i = 0; i < samples.size(); ++i) out.emplace(samples[i].id, shaped[i]);
  return out;
}

/// All samples of a rollout's steps in a row, and what the advantage reads of them.
class Training {
 public:
  Training(const RecordedRollout& rollout, const ObjectiveSetting& setting)
      : rollout_(rollout), setting_(setting), config_(advantage_config(setting.options)) {
    config_.normalize_rewards = false;
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
    shape(out);
    add_kl(out);
    const auto& rewards = recorded_ ? recorded_ : out.shaped;
    if (!rewards) return out;
    if (config_.kl_coef != 0 && config_.estimator != engine::Estimator::kGrpo && !has_kl_) {
      out.missing = "--kl-coef needs old and reference log-probabilities, which are not recorded";
      return out;
    }
    for (size_t i = 0; i < samples_.size(); ++i) samples_[i].reward = (*rewards)[i];
    try {
      const bool whiten = config_.normalize_advantages;
      config_.normalize_advantages = false;
      out.returns = advantages(samples_, targets_);
      config_.normalize_advantages = whiten;
      out.advantages = whiten ? whitened() : out.returns;
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
    const TokenColumn& old = step.old_log_probs ? step.old_log_probs : step.log_probs;
    if (old) targets.old_log_probs = (*old)[i];
    if (step.ref_log_probs) targets.ref_log_probs = (*step.ref_log_probs)[i];
    const size_t n = samples_.back().loss_mask.size();
    has_kl_ = has_kl_ && targets.old_log_probs.size() == n && targets.ref_log_probs.size() == n;
  }

  void shape(AdvantageValues& out) const {
    if (!rollout_.has_rewards) {
      out.missing = "the dump holds no rewards as the reward function gave them";
      return;
    }
    const bool grouped = config_.estimator != engine::Estimator::kPolicyGradient &&
                         !setting_.options.disable_rewards_normalization;
    if (grouped && setting_.grouping == Grouping::kRecorded && !rollout_.has_groups) {
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
      for (size_t t = 0; t < samples_[i].loss_mask.size(); ++t) {
        const double value =
            config_.kl_coef == 0
                ? 0
                : engine::kl_estimate(config_.kl_type, config_.dialect,
                                      targets_[i].old_log_probs[t], targets_[i].ref_log_probs[t])
                      .value;
        kl[i].push_back(static_cast<float>(value));
      }
    }
    out.kl = std::move(kl);
  }

  Columns advantages(std::span<const Sample> samples, std::span<SampleTargets> targets) const {
    engine::set_advantages(config_, samples, targets);
    Columns out;
    for (const SampleTargets& t : targets) out.push_back(t.advantages);
    return out;
  }

  Columns whitened() {
    if (setting_.whitening_ranks > 1) return whitened_by_rank();
    if (!setting_.whiten_each_step) return advantages(samples_, targets_);
    Columns out;
    size_t begin = 0;
    for (const size_t end : ends_) {
      const auto part = advantages(std::span(samples_).subspan(begin, end - begin),
                                   std::span(targets_).subspan(begin, end - begin));
      out.insert(out.end(), part.begin(), part.end());
      begin = end;
    }
    return out;
  }

  /// Each rank of context parallelism whitens the slices that it holds by itself.
  Columns whitened_by_rank() const {
    Columns out;
    for (const Sample& s : samples_) out.emplace_back(s.loss_mask.size());
    for (int64_t rank = 0; rank < setting_.whitening_ranks; ++rank) {
      std::vector<Sample> slices;
      std::vector<SampleTargets> targets;
      std::vector<std::vector<size_t>> places(samples_.size());
      for (size_t i = 0; i < samples_.size(); ++i) {
        places[i] = places_of(i, rank);
        slices.push_back(slice(samples_[i], places[i]));
        targets.push_back({{},
                           slice(targets_[i].old_log_probs, places[i]),
                           slice(targets_[i].ref_log_probs, places[i])});
      }
      const Columns part = advantages(slices, targets);
      for (size_t i = 0; i < part.size(); ++i) {
        for (size_t k = 0; k < part[i].size(); ++k) out[i][places[i][k]] = part[i][k];
      }
    }
    return out;
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
  bool has_kl_ = true;
  std::optional<std::vector<double>> recorded_ = std::vector<double>();
};

/// What the losses of a step read.
struct LossInputs {
  std::vector<Sample> samples;
  std::vector<SampleTargets> targets;
  std::vector<engine::Scores> scores;
  std::vector<bool> known;  // whether the policy's own and old log-probabilities are there
  bool whole = true;        // of every sample, with advantages
};

LossInputs loss_inputs(const RecordedStep& step, const TokenColumn& advantages,
                       const ObjectiveSetting& setting, bool policy_is_old) {
  LossInputs in;
  const TokenColumn& current = policy_is_old ? step.old_log_probs : step.log_probs;
  const TokenColumn& old = setting.rollout_as_old ? step.rollout_log_probs : step.old_log_probs;
  for (size_t i = 0; i < step.samples.size(); ++i) {
    const size_t n = step.samples[i].loss_mask.size();
    in.samples.push_back(slim(step.samples[i]));
    in.samples.back().rollout_log_probs = step.samples[i].rollout_log_probs;
    engine::Scores& scores = in.scores.emplace_back();
    SampleTargets& targets = in.targets.emplace_back();
    const auto take = [&](const TokenColumn& column, std::vector<float>& to) {
      if (column && (*column)[i].size() == n) to = (*column)[i];
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

/// Of the tokens of a sample alone: no weight of the batch enters.
void add_terms(const engine::ObjectiveConfig& config, const LossInputs& in, size_t i,
               LossValues& out) {
  for (size_t t = 0; t < in.samples[i].loss_mask.size(); ++t) {
    const engine::TokenInput token = engine::token_input(
        in.samples[i], in.targets[i], 0, t, in.scores[i].log_probs[t], in.scores[i].entropy[t]);
    (*out.policy_loss)[i].push_back(
        static_cast<float>(engine::token_objective(config, token).policy));
    (*out.policy_kl)[i].push_back(static_cast<float>(
        engine::kl_estimate(engine::KlType::kK1, config.dialect, token.old_log_prob, token.log_prob)
            .value));
  }
}

std::vector<double> weights(engine::Reducer reducer, const RecordedRollout& rollout,
                            const LossInputs& in, Denominators denominators) {
  if (denominators == Denominators::kStep) return engine::sample_weights(reducer, in.samples);
  std::vector<Sample> of;
  if (denominators == Denominators::kUnmasked) {
    of = in.samples;
    for (Sample& s : of) std::ranges::fill(s.loss_mask, uint8_t{1});
    return engine::sample_weights(reducer, of);
  }
  std::map<uint64_t, size_t> places;
  for (const RecordedStep& step : rollout.steps) {
    for (const Sample& s : step.samples) {
      places.emplace(s.id, of.size());
      of.push_back(slim(s));
    }
  }
  const std::vector<double> all = engine::sample_weights(reducer, of);
  std::vector<double> out;
  for (const Sample& s : in.samples) out.push_back(all[places.at(s.id)]);
  return out;
}

/// Why losses cannot be computed; empty where they can.
std::string missing_inputs(const engine::ObjectiveConfig& config, const RecordedStep& step,
                           const TokenColumn& advantages, bool policy_is_old, bool rollout_as_old) {
  if (!is_whole(policy_is_old ? step.old_log_probs : step.log_probs, step.samples)) {
    return "the policy's log-probabilities of this step are not recorded";
  }
  if (!is_whole(advantages, step.samples)) return "the advantages are not recorded";
  if (config.kl_loss_coef != 0 && !is_whole(step.ref_log_probs, step.samples)) {
    return "--kl-loss-coef needs the reference's log-probabilities, which are not recorded";
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
                         const TokenColumn& computed, const ObjectiveSetting& setting) {
  LossValues out;
  const engine::ObjectiveConfig config = step_config(setting.options).objective;
  const TokenColumn& advantages = step.advantages ? step.advantages : computed;
  // Before the rollout's first update the policy is the one that the old ones are of.
  out.policy_is_old = !step.log_probs && step.old_log_probs && step.id.step == 0;
  out.has_entropy = is_whole(step.entropy, step.samples);
  out.missing = missing_inputs(config, step, advantages, out.policy_is_old, setting.rollout_as_old);
  const bool needs_entropy = config.entropy_coef != 0 && !out.has_entropy;
  if (out.missing.empty() && needs_entropy) {
    out.missing = "--entropy-coef needs the entropy, which is not recorded";
  }
  const LossInputs in = loss_inputs(step, advantages, setting, out.policy_is_old);
  out.policy_loss.emplace(in.samples.size());
  out.policy_kl.emplace(in.samples.size());
  for (size_t i = 0; i < in.samples.size(); ++i) {
    const bool tis = !config.tis || !in.samples[i].rollout_log_probs.empty();
    const bool reference = config.kl_loss_coef == 0 || !in.targets[i].ref_log_probs.empty();
    if (in.known[i] && tis && reference) add_terms(config, in, i, out);
  }
  if (!out.missing.empty() || !in.whole) return out;
  try {
    out.losses = engine::evaluate_objective(
                     config, in.samples, in.targets,
                     weights(config.reducer, rollout, in, setting.denominators), in.scores)
                     .losses;
  } catch (const Error& error) {
    out.missing = error.what();
  }
  return out;
}

}  // namespace rlreplay::replay
