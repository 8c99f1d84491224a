#include <algorithm>

#include "format/foreign/context_slices.h"
#include "src/base/error.h"
#include "src/base/words.h"
#include "src/replay/inspect/objective_parts.h"
#include "src/replay/inspect/objective_replay.h"
#include "src/replay/options/objective_config.h"

namespace rlreplay::replay {
namespace {

using Columns = std::vector<std::vector<double>>;

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
    shape_rewards(out);
    const auto& rewards = recorded_ ? recorded_ : out.shaped;
    if (!rewards) out.missing = out.missing_rewards;
    try {
      const std::vector<size_t> rewarded = rewarded_tokens();
      add_kl(out);
      if (is_slime_gae() && setting_.charged_kl) charge_kl(rewards, rewarded, out.kl);
      add_reverse_kl(out);
      if (!rewards) return out;
      engine::Returns returns =
          engine::compute_returns(config_, samples_, *rewards, targets_, rewarded);
      if (out.kl) spread(*out.kl, returns);
      out.returns = std::move(returns.returns);
      engine::TokenValues own = returns.advantages;
      if (take_recorded_returns(returns.advantages)) {
        if (config_.normalize_advantages) whiten(own);
        out.own_advantages = std::move(own);
      }
      if (config_.normalize_advantages) whiten(returns.advantages);
      out.advantages = std::move(returns.advantages);
    } catch (const Error& error) {
      out.missing = error.what();
    }
    return out;
  }

 private:
  void add(const RecordedStep& step, size_t i) {
    samples_.push_back(slim(step.samples[i]));
    whole_.push_back(static_cast<int64_t>(step.samples[i].tokens.size()));
    engine::WideTargets& targets = targets_.emplace_back();
    const auto take = [&](const TokenColumn& column, std::vector<double>& to) {
      if (column) to = (*column)[i];
    };
    take(setting_.options.use_rollout_logprobs ? step.rollout_log_probs
         : step.old_log_probs                  ? step.old_log_probs
                                               : step.log_probs,
         targets.old_log_probs);
    take(step.ref_log_probs, targets.ref_log_probs);
    take(step.values, targets.values);
    take(step.teacher_log_probs, targets.teacher_log_probs);
    if (!setting_.own_reverse_kl) take(step.reverse_kl, targets.reverse_kl);
    const size_t n = samples_.back().loss_mask.size();
    has_kl_ = has_kl_ && targets.old_log_probs.size() == n && targets.ref_log_probs.size() == n;
    has_teacher_ =
        has_teacher_ && targets.old_log_probs.size() == n && targets.teacher_log_probs.size() == n;
  }

  /// Why rewards cannot be shaped: none is there, or one is not, which is named with its step.
  std::string without_rewards() const {
    if (!rollout_.data) {
      return "the dump holds no rollout " + std::to_string(rollout_.id) +
             ": which reward a sample got, and which samples answer one prompt, is read there "
             "(raw_reward of a framework's training data is kept, but names neither)";
    }
    const auto has = &RecordedFields::reward;
    if (std::ranges::none_of(rollout_.fields, has)) {
      return "the dump holds no rewards as the reward function gave them";
    }
    const auto lacks = std::ranges::find(rollout_.fields, false, has) - rollout_.fields.begin();
    const uint64_t id = rollout_.samples[static_cast<size_t>(lacks)].id;
    std::string of = "of rollout " + std::to_string(rollout_.id);
    for (const RecordedStep& step : rollout_.steps) {
      if (std::ranges::count(step.samples, id, &Sample::id) > 0) of = "of step " + step.id.name();
    }
    return "sample " + std::to_string(id) + " " + of +
           " has no reward as the reward function gave it, and " +
           counted(static_cast<size_t>(std::ranges::count(rollout_.fields, true, has)), "other") +
           " of its rollout have one";
  }

  /// Shapes the rewards. What the options refuse is noted, and no end: shaped ones may be recorded.
  void shape_rewards(AdvantageValues& out) const {
    try {
      shape(out);
    } catch (const Error& error) {
      out.missing_rewards = error.what();
      out.refuses_rewards = true;
    }
  }

  void shape(AdvantageValues& out) const {
    if (!rollout_.has_rewards()) {
      out.missing_rewards = without_rewards();
      const bool none = std::ranges::none_of(rollout_.fields, &RecordedFields::reward);
      if (none && rollout_.data && rollout_.data->reward_components) {
        out.missing_rewards =
            "the rewards are dicts: --reward-key NAME takes one of their numbers (" +
            joined(rollout_.data->reward_components->names, ", ") + ")";
      }
      return;
    }
    ObjectiveSetting setting = setting_;
    if (config_.shapes_rewards() && setting.grouping == Grouping::kRecorded &&
        !rollout_.has_groups()) {
      const uint64_t size = setting.group_size;
      if (size == 0 || rollout_.samples.size() % size != 0) {
        out.missing_rewards =
            "the dump does not say which samples answer one prompt" +
            std::string(size == 0 ? " (--n-samples-per-prompt N takes N at a time, by id)" : "");
        return;
      }
      setting.grouping = Grouping::kConsecutive;
    }
    const auto by_id = shaped_by_id(rollout_, setting);
    std::vector<double> shaped;
    for (const Sample& s : samples_) {
      const auto at = by_id.find(s.id);
      if (at == by_id.end()) {
        out.missing_rewards = "sample " + std::to_string(s.id) + " is in no rollout of the dump";
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
        const double value = config_.kl_coef == 0
                                 ? 0
                                 : engine::kl_of_difference(
                                       config_.kl_type, config_.dialect,
                                       targets_[i].old_log_probs[t] - targets_[i].ref_log_probs[t])
                                       .value;
        kl[i].push_back(value);
      }
    }
    out.kl = std::move(kl);
  }

  bool is_slime_gae() const {
    return config_.dialect == engine::Dialect::kSlime &&
           config_.estimator == engine::Estimator::kPpo;
  }

  /// The last response token that the first rank of context parallelism holds, by sample; beyond
  /// the response where it holds none.
  std::vector<size_t> rewarded_tokens() const {
    std::vector<size_t> out;
    for (size_t i = 0; is_slime_gae() && i < samples_.size(); ++i) {
      const auto response = static_cast<int64_t>(samples_[i].loss_mask.size());
      const auto [head, tail] =
          foreign::response_slices(whole_[i], response, whole_[i], setting_.reward_ranks, 0);
      const foreign::ResponseRange& last = tail.size() > 0 ? tail : head;
      out.push_back(static_cast<size_t>(last.size() > 0 ? last.end - 1 : response));
    }
    return out;
  }

  /// What each token was rewarded with: slime computed it in the column of the KL.
  void charge_kl(const std::optional<std::vector<double>>& rewards,
                 const std::vector<size_t>& rewarded, TokenColumn& kl) const {
    if (!rewards) kl.reset();
    for (size_t i = 0; kl && i < kl->size(); ++i) {
      std::vector<double>& sample = (*kl)[i];
      for (double& x : sample) x *= -config_.kl_coef;
      if (rewarded[i] < sample.size()) sample[rewarded[i]] += (*rewards)[i];
    }
  }

  void spread(const Columns& kl, engine::Returns& returns) const {
    std::vector<SummedSample> of;
    const bool gae = config_.estimator == engine::Estimator::kPpo;
    for (size_t i = 0; i < samples_.size(); ++i) {
      of.push_back({kl[i], gae ? targets_[i].values : std::span<const double>()});
    }
    spread_not_finite(setting_, samples_, of, returns);
  }

  /// Adds the old log-probabilities less the recorded teacher's, where all samples have both.
  void add_reverse_kl(AdvantageValues& out) const {
    if (!has_teacher_) return;
    Columns reverse;
    for (const engine::WideTargets& t : targets_) {
      std::vector<double>& row = reverse.emplace_back();
      for (size_t k = 0; k < t.old_log_probs.size(); ++k) {
        row.push_back(t.old_log_probs[k] - t.teacher_log_probs[k]);
      }
    }
    out.reverse_kl = std::move(reverse);
  }

  /// Takes the recorded returns for the advantages before whitening, and charges them with the
  /// reverse KL where they are not charged yet. Returns whether it did: GAE's returns are no
  /// advantages, and others may not have been recorded.
  bool take_recorded_returns(engine::TokenValues& advantages) const {
    if (config_.estimator == engine::Estimator::kPpo) return false;
    if (!is_recorded(&RecordedStep::returns)) return false;
    advantages = recorded(&RecordedStep::returns);
    // The baseline's returns are charged already.
    if (config_.estimator != engine::Estimator::kReinforcePlusPlusBaseline) {
      for (size_t i = 0; i < advantages.size(); ++i) {
        engine::charge_reverse_kl(config_, targets_[i], advantages[i]);
      }
    }
    return true;
  }

  void whiten(engine::TokenValues& values) const {
    WhitenedBatch batch{samples_, whole_, ends_, std::nullopt};
    if (setting_.whitening == Whitening::kBinary32 && is_recorded(&RecordedStep::advantages)) {
      batch.recorded = recorded(&RecordedStep::advantages);
    }
    whiten_as(setting_, batch, values);
  }

  bool is_recorded(TokenColumn RecordedStep::*column) const {
    return std::ranges::all_of(rollout_.steps, [&](const RecordedStep& step) {
      return is_whole(step.*column, step.samples);
    });
  }

  /// A recorded column of the samples of all steps in a row.
  engine::TokenValues recorded(TokenColumn RecordedStep::*column) const {
    engine::TokenValues out;
    for (const RecordedStep& step : rollout_.steps) {
      out.insert(out.end(), (step.*column)->begin(), (step.*column)->end());
    }
    return out;
  }

  const RecordedRollout& rollout_;
  const ObjectiveSetting& setting_;
  engine::AdvantageConfig config_;
  std::vector<Sample> samples_;
  std::vector<int64_t> whole_;  // tokens of each, prompt included
  std::vector<engine::WideTargets> targets_;
  std::vector<size_t> ends_;  // of the steps
  bool has_kl_ = true, has_teacher_ = true;
  std::optional<std::vector<double>> recorded_ = std::vector<double>();
};

}  // namespace

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

AdvantageValues replay_advantages(const RecordedRollout& rollout, const ObjectiveSetting& setting) {
  return Training(rollout, setting).run();
}

}  // namespace rlreplay::replay
