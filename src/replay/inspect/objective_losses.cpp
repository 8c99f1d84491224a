#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include "src/base/error.h"
#include "src/objective/check_batch.h"
#include "src/replay/inspect/objective_parts.h"
#include "src/replay/inspect/objective_replay.h"
#include "src/replay/options/objective_config.h"

namespace rlreplay::replay {
namespace {

/// What the losses of a step read.
struct LossInputs {
  std::vector<Sample> samples;
  std::vector<std::vector<engine::WideToken>> tokens;
  std::vector<SampleTargets> targets;  // of the tokens, for the checks of an engine
  std::vector<Scores> scores;          // likewise
  std::vector<bool> known;  // whether the policy's own and old log-probabilities are there
  bool whole = true;        // of every sample, with advantages
};

/// The columns of one sample of a step, put together token by token.
class SampleColumns {
 public:
  SampleColumns(const Sample& sample, size_t place)
      : tokens(sample.loss_mask.size()), place_(place) {
    for (size_t t = 0; t < tokens.size(); ++t) tokens[t].masked = sample.loss_mask[t] == 0;
  }

  /// False where the sample has no such column.
  bool take(const TokenColumn& column, double engine::WideToken::*field,
            std::vector<float>& narrow) {
    if (!column || (*column)[place_].size() != tokens.size()) return tokens.empty();
    const std::vector<double>& values = (*column)[place_];
    for (size_t t = 0; t < tokens.size(); ++t) tokens[t].*field = values[t];
    narrow = narrowed(values);
    return true;
  }

  std::vector<engine::WideToken> tokens;

 private:
  size_t place_;
};

LossInputs loss_inputs(const RecordedStep& step, const TokenColumn& advantages,
                       const ObjectiveSetting& setting, bool policy_is_old) {
  using Token = engine::WideToken;
  LossInputs in;
  const TokenColumn& current = policy_is_old ? step.old_log_probs : step.log_probs;
  const TokenColumn& old =
      setting.options.use_rollout_logprobs ? step.rollout_log_probs : step.old_log_probs;
  for (size_t i = 0; i < step.samples.size(); ++i) {
    SampleColumns of(step.samples[i], i);
    Sample& sample = in.samples.emplace_back(slim(step.samples[i]));
    Scores& scores = in.scores.emplace_back();
    SampleTargets& targets = in.targets.emplace_back();
    bool known = of.take(current, &Token::log_prob, scores.log_probs);
    if (!of.take(step.entropy, &Token::entropy, scores.entropy)) {
      scores.entropy.assign(of.tokens.size(), 0);
    }
    // Without old log-probabilities the policy is its own past, in every sample of the step.
    for (Token& token : of.tokens) token.old_log_prob = token.log_prob;
    if (old) known = of.take(old, &Token::old_log_prob, targets.old_log_probs) && known;
    of.take(step.ref_log_probs, &Token::ref_log_prob, targets.ref_log_probs);
    of.take(step.rollout_log_probs, &Token::rollout_log_prob, sample.rollout_log_probs);
    known = of.take(advantages, &Token::advantage, targets.advantages) && known;
    in.tokens.push_back(std::move(of.tokens));
    in.known.push_back(known);
    in.whole = in.whole && known;
  }
  return in;
}

/// The configuration of the recorded policy_loss: without TIS and OPSM where it is an early term.
engine::ObjectiveConfig term_config(engine::ObjectiveConfig config, bool early) {
  if (early) {
    config.tis.reset();
    config.opsm_delta.reset();
  }
  return config;
}

/// Adds a masked token as frameworks have it in a sum: 0 times what it is, which is NaN of what is
/// not finite. Under slime a coefficient of 0 is another such product.
void add_masked(const engine::ObjectiveConfig& config, const engine::TokenTerms& terms,
                double entropy, engine::Losses& to) {
  const bool always = config.dialect == engine::Dialect::kSlime;
  to.policy += 0 * terms.policy;
  to.kl += 0 * terms.kl;
  to.entropy += 0 * entropy;
  to.total += 0 * terms.policy;
  if (always || config.kl_loss_coef != 0) to.total += 0 * terms.kl;
  if (always || config.entropy_coef != 0) to.total += 0 * entropy;
}

/// `masked_nan`: as frameworks do, which multiply a masked token by 0, also one that is not finite.
engine::SequenceTerms sequence_of(const engine::ObjectiveConfig& config,
                                  std::span<const engine::WideToken> tokens, bool masked_nan) {
  engine::SequenceTerms out = engine::sequence_terms(config, tokens);
  const auto spoils = [](const engine::WideToken& t) {
    return t.masked && !std::isfinite(t.log_prob - t.old_log_prob);
  };
  if (masked_nan && std::ranges::any_of(tokens, spoils)) {
    out.log_ratio = std::numeric_limits<double>::quiet_NaN();
  }
  return out;
}

/// Order: chains per sample over ascending tokens, then over samples by ascending id.
/// Errors: those of check_batch and check_scores.
engine::Losses losses_of(const engine::ObjectiveConfig& config, const LossInputs& in,
                         const std::vector<double>& weights, bool masked_nan) {
  engine::check_batch(config, in.samples, in.targets);
  for (size_t i = 0; i < in.samples.size(); ++i) {
    engine::check_scores(in.samples[i], in.scores[i].log_probs, in.scores[i].entropy);
  }
  engine::Losses out;
  for (const size_t i : by_id(in.samples)) {
    const engine::SequenceTerms sequence = sequence_of(config, in.tokens[i], masked_nan);
    engine::Losses sample;
    for (const engine::WideToken& token : in.tokens[i]) {
      if (token.masked && !masked_nan) continue;
      const engine::TokenTerms terms = engine::token_objective(config, token, sequence);
      if (token.masked) {
        add_masked(config, terms, token.entropy, sample);
      } else {
        engine::add(sample, terms, token.entropy, weights[i]);
      }
    }
    engine::add(out, sample);
  }
  return out;
}

/// Adds policy_loss and policy_kl of each token of a sample, without its weight in the batch. Miles
/// writes the terms of a masked token as those of an advantage of 0; slime computes them.
void add_terms(const engine::ObjectiveConfig& config, const LossInputs& in, size_t i,
               bool masked_nan, LossValues& out) {
  const engine::SequenceTerms sequence = sequence_of(config, in.tokens[i], masked_nan);
  (*out.policy_loss)[i].reserve(in.tokens[i].size());
  (*out.policy_kl)[i].reserve(in.tokens[i].size());
  for (engine::WideToken token : in.tokens[i]) {
    if (token.masked && config.dialect == engine::Dialect::kMiles) token.advantage = 0;
    (*out.policy_loss)[i].push_back(engine::token_objective(config, token, sequence).policy);
    (*out.policy_kl)[i].push_back(engine::policy_kl(config, token, sequence));
  }
}

/// Whether binary32, which errs by this share of numbers of this size, may take `x` to lie on the
/// other side of a bound than binary64.
bool is_near(double x, double bound, double size, double error) {
  return std::abs(x - bound) <= error * size;
}

// A difference, its exp, the bound and the product are rounded each.
constexpr double kToken32 = 0x1p-21;

/// A bound that the advantage makes no difference at clips nothing.
bool is_at_bound(const engine::ObjectiveConfig& config, double ratio, double advantage) {
  const bool sequence = config.policy_loss == engine::PolicyLoss::kSequence;
  if (config.policy_loss == engine::PolicyLoss::kPlain) return false;
  const auto near = [&](double bound) {
    return is_near(ratio, bound, std::max(1.0, bound), sequence ? kSums32 : kToken32);
  };
  const double low = 1 - config.eps_clip, high = 1 + config.eps_clip_high;
  if (config.policy_loss == engine::PolicyLoss::kCispo) return near(low) || near(high);
  return (advantage > 0 && near(high)) || (advantage < 0 && near(low));
}

ClipBorder clip_border(const engine::ObjectiveConfig& config, const LossInputs& in,
                       const std::vector<double>& weights, bool masked_nan) {
  ClipBorder out;
  for (size_t i = 0; i < in.samples.size(); ++i) {
    const engine::SequenceTerms sequence = sequence_of(config, in.tokens[i], masked_nan);
    for (const engine::WideToken& token : in.tokens[i]) {
      if (token.masked) continue;
      const engine::TokenTerms terms = engine::token_objective(config, token, sequence);
      const double advantage = engine::policy_advantage(config.dialect, token.advantage);
      out.add(terms.clipped, is_at_bound(config, terms.ratio, advantage), weights[i]);
    }
  }
  return out;
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

/// Whether a critic's value moved so nearly by `clip` that binary32 may clip it or not. One that
/// did not move is not clipped.
bool is_at_bound(double clip, double value, double old_value) {
  const double moved = std::abs(value - old_value);
  const double size = std::max(clip, std::abs(old_value));
  return moved != 0 && is_near(moved, clip, size, kToken32);
}

/// The critic's loss: of a rollout's first step the values are those before its update.
void add_value_loss(const RecordedStep& step, const TokenColumn& returns,
                    const std::vector<double>& weights, const ObjectiveSetting& setting,
                    LossValues& out) {
  const double clip = setting.options.value_clip;
  const TokenColumn& current =
      !step.current_values && step.id.step == 0 ? step.values : step.current_values;
  if (!is_whole(current, step.samples) || !is_whole(step.values, step.samples) ||
      !is_whole(returns, step.samples)) {
    return;
  }
  double loss = 0, clipped = 0;
  for (const size_t i : by_id(step.samples)) {
    double sample = 0, share = 0;
    const std::vector<double>&now = (*current)[i], &before = (*step.values)[i],
          &goal = (*returns)[i];
    for (size_t t = 0; t < step.samples[i].loss_mask.size(); ++t) {
      const engine::ValueTerms terms = engine::value_objective(clip, now[t], before[t], goal[t]);
      if (step.samples[i].loss_mask[t] == 0) {
        if (setting.masked_nan) sample += 0 * terms.loss;
        continue;
      }
      sample += weights[i] * terms.loss;
      if (terms.clipped) share += weights[i];
      out.value_clip_border.add(terms.clipped, is_at_bound(clip, now[t], before[t]), weights[i]);
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
  // Of a step that is masked throughout every mean is 0, whatever its tokens have.
  const auto trains = [](const Sample& s) { return std::ranges::count(s.loss_mask, 1) > 0; };
  const bool masked = std::ranges::none_of(step.samples, trains);
  out.has_entropy = masked || is_whole(step.entropy, step.samples);
  out.missing = missing_inputs(config, step, advantages, out.policy_is_old, rollout_as_old);
  out.has_total = config.entropy_coef == 0 || out.has_entropy;
  const LossInputs in = loss_inputs(step, advantages, setting, out.policy_is_old);
  out.policy_loss.emplace(in.samples.size());
  out.policy_kl.emplace(in.samples.size());
  const engine::ObjectiveConfig of_terms = term_config(config, setting.early_term);
  for (size_t i = 0; i < in.samples.size(); ++i) {
    const bool tis = !of_terms.tis || !in.samples[i].rollout_log_probs.empty();
    const bool asked = step.policy_loss || step.policy_kl;
    if (asked && in.known[i] && tis) add_terms(of_terms, in, i, setting.masked_nan, out);
  }
  const auto of = weights(config.reducer, rollout, step, in, setting.denominators);
  add_value_loss(step, step.returns ? step.returns : computed.returns, of, setting, out);
  if (!out.missing.empty() || !in.whole) return out;
  try {
    out.losses = losses_of(config, in, of, setting.masked_nan);
    if (step.scalar("clip_fraction")) {
      out.clip_border = clip_border(config, in, of, setting.masked_nan);
    }
  } catch (const Error& error) {
    out.missing = error.what();
  }
  return out;
}

}  // namespace rlreplay::replay
