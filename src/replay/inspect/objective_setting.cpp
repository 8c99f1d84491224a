#include "src/replay/inspect/objective_setting.h"

#include "format/foreign/framework.h"
#include "src/base/text_table.h"
#include "src/base/words.h"
#include "src/replay/options/objective_config.h"

namespace rlreplay::replay {
namespace {

using S = ObjectiveSetting;
using Variants = std::vector<ObjectiveVariant>;

constexpr int64_t kMostRanks = 8;  // of context parallelism, that are tried

bool is_slime(const S& from) { return dialect(from.options) == engine::Dialect::kSlime; }

/// The other value of a flag.
void add_flag(Variants& out, const S& from, bool RunOptions::*flag, const std::string& name,
              const std::string& reason = {}) {
  const bool set = from.options.*flag;
  out.push_back(
      {(set ? "without " : "") + name, reason, [flag, set](S& s) { s.options.*flag = !set; }});
}

/// The sampler's log-probabilities as the old ones, which leaves nothing for TIS to weigh.
void add_rollout_logprobs(Variants& out, const S& from, const std::string& reason = {}) {
  if (from.options.use_rollout_logprobs || !from.options.use_tis) {
    return add_flag(out, from, &RunOptions::use_rollout_logprobs, "--use-rollout-logprobs", reason);
  }
  out.push_back({"--use-rollout-logprobs without --use-tis",
                 reason,
                 [](S& s) {
                   s.options.use_rollout_logprobs = true;
                   s.options.use_tis = false;
                 },
                 {"--use-rollout-logprobs"}});
}

void add_tis(Variants& out, const S& from) {
  if (from.options.use_tis || !from.options.use_rollout_logprobs) {
    return add_flag(out, from, &RunOptions::use_tis, "--use-tis");
  }
  out.push_back({"--use-tis without --use-rollout-logprobs",
                 {},
                 [](S& s) {
                   s.options.use_rollout_logprobs = false;
                   s.options.use_tis = true;
                 },
                 {"--use-tis"}});
}

/// The other choices of an option.
void add_choices(Variants& out, const S& from, std::string RunOptions::*field,
                 const std::string& name, std::initializer_list<const char*> choices,
                 const std::string& reason = {}) {
  for (const std::string choice : choices) {
    if (from.options.*field == choice) continue;
    out.push_back(
        {name + " " + choice, reason, [field, choice](S& s) { s.options.*field = choice; }});
  }
}

/// A coefficient that is none.
void add_zero(Variants& out, const S& from, double RunOptions::*field, const std::string& name) {
  if (from.options.*field == 0) return;
  out.push_back({name + " 0", {}, [field](S& s) { s.options.*field = 0; }});
}

void add_dialect(Variants& out, const S& from, const std::string& reason) {
  using foreign::Framework;
  const std::string other(to_string(is_slime(from) ? Framework::kMiles : Framework::kSlime));
  out.push_back({"--dialect " + other, reason, [other](S& s) { s.options.dialect = other; }});
}

/// What the dialects do otherwise from rewards to advantages, by quantity.
std::map<std::string, std::string> dialect_reasons(const S& from) {
  const std::string shaping =
      "of a group without spread slime divides by 1e-6, Miles does not divide; Miles takes the "
      "samples of a trajectory for one";
  const std::string& estimator = from.options.advantage_estimator;
  const std::string of_tokens =
      estimator == "ppo" ? "slime's GAE takes every token for a step, Miles' leaves masked ones out"
      : estimator == "reinforce_plus_plus" ? "slime charges no KL for masked tokens, Miles does"
                                           : shaping;
  return {{"rewards", shaping},
          {"reward_kl", "Miles bounds the log-ratio of low_var_kl to +-20"},
          {"returns", of_tokens},
          {"advantages", of_tokens},
          {"reverse_kl", "Miles takes a reverse KL that its rollout computed as it is"}};
}

void add_shaping32(Variants& out) {
  out.push_back({"rewards shaped in binary32",
                 "slime and Miles take a group's mean in binary32: of rewards that lie close "
                 "together few digits of the distance from it are left",
                 [](S& s) { s.shape_binary32 = true; }});
}

void add_groupings(Variants& out, const S& from, size_t samples) {
  if (from.grouping != Grouping::kWhole) {
    out.push_back({"one group of the whole rollout",
                   "slime groups so where the samples are not --n-samples-per-prompt times "
                   "--rollout-batch-size, as after subsampling or filtering",
                   [](S& s) { s.grouping = Grouping::kWhole; }});
  }
  if (is_slime(from)) {
    out.push_back({"a group of each prompt",
                   "slime takes all samples for one group where a rollout_id has several of them "
                   "and they are not as many as its options announce, unless the run's own code "
                   "shapes the rewards",
                   [](S& s) { s.grouping = Grouping::kPrompt; }});
  }
  for (uint64_t n = 2; n <= 64 && n < samples; ++n) {
    if (samples % n != 0) continue;
    out.push_back({"groups of " + std::to_string(n) + " in the order of the rollout",
                   "slime groups by place, --n-samples-per-prompt at a time, not by prompt",
                   [n](S& s) {
                     s.grouping = Grouping::kConsecutive;
                     s.group_size = n;
                   }});
  }
}

/// Of the estimators that discount.
void add_discounts(Variants& out, const S& from) {
  const std::string& estimator = from.options.advantage_estimator;
  if (estimator != "ppo" && estimator != "reinforce_plus_plus") return;
  for (const double gamma : {1.0, 0.99}) {
    if (from.options.gamma == gamma) continue;
    out.push_back({gamma == 1 ? "--gamma 1" : "--gamma 0.99", {}, [gamma](S& s) {
                     s.options.gamma = gamma;
                   }});
  }
  for (const double lambda : {1.0, 0.95}) {
    if (estimator != "ppo" || from.options.lambd == lambda) continue;
    out.push_back({lambda == 1 ? "--lambd 1" : "--lambd 0.95", {}, [lambda](S& s) {
                     s.options.lambd = lambda;
                   }});
  }
}

/// Where slime's GAE has the reward.
void add_reward_places(Variants& out, const S& from) {
  if (!is_slime(from)) return;
  for (int64_t ranks = 2; ranks <= kMostRanks; ++ranks) {
    out.push_back({"the reward where the first of " + std::to_string(ranks) +
                       " ranks of context parallelism ends",
                   "slime's PPO gives it to the last response token that this rank holds: an "
                   "earlier one where its last chunk lies behind the sample's end, none where it "
                   "holds prompt alone (there slime stops unless it was changed)",
                   [ranks](S& s) { s.reward_ranks = ranks; }});
  }
  out.push_back({"the rewards of tokens in the place of reward_kl",
                 "slime's PPO before 2026-08-21 charged the KL and added the reward in place",
                 [](S& s) { s.charged_kl = true; }});
}

void add_whitening(Variants& out, const S& from) {
  add_flag(out, from, &RunOptions::normalize_advantages, "--normalize-advantages");
  out.push_back({"--normalize-advantages over each step",
                 "mean and deviation of the step's tokens, not of the rollout's",
                 [](S& s) {
                   s.options.normalize_advantages = true;
                   s.whitening = Whitening::kStep;
                 },
                 {"--normalize-advantages"}});
  out.push_back({"--normalize-advantages in binary32",
                 "slime and Miles take the variance as E[x^2] - E[x]^2 of binary32 sums: of values "
                 "that lie close together few digits of it are left",
                 [](S& s) {
                   s.options.normalize_advantages = true;
                   s.whitening = Whitening::kBinary32;
                 },
                 {"--normalize-advantages"}});
  out.push_back(
      {.name = "--normalize-advantages in binary32, with a variance below 0",
       .reason = "the framework's variance, E[x^2] - E[x]^2 of binary32 sums, ends below 0 where "
                 "values are equal but for rounding: its root is NaN",
       .apply =
           [](S& s) {
             s.options.normalize_advantages = true;
             s.whitening = Whitening::kNegative;
           },
       .parts = {"--normalize-advantages"},
       .says_nan = true});
  for (int64_t ranks = 2; ranks <= kMostRanks; ++ranks) {
    const auto within = [ranks](S& s) {
      s.options.normalize_advantages = true;
      s.whitening_ranks = ranks;
    };
    const std::string each =
        "within each of " + std::to_string(ranks) + " ranks of context parallelism";
    out.push_back({"--normalize-advantages " + each,
                   "Miles, and slime before 2026-08-12, take a rank's own slices: the statistics "
                   "differ by rank",
                   within,
                   {"--normalize-advantages"}});
    out.push_back({"--normalize-advantages in binary32 " + each,
                   "a rank's own slices, and of these the variance as E[x^2] - E[x]^2 of binary32 "
                   "sums",
                   [within](S& s) {
                     within(s);
                     s.whitening = Whitening::kBinary32;
                   },
                   {"--normalize-advantages"}});
  }
}

/// A KL in the reward where there is none: the estimate is the same with any coefficient.
void add_kl_coefs(Variants& out, const S& from) {
  if (from.options.kl_coef != 0) return;
  out.push_back({"a --kl-coef other than 0", "which one the estimate itself does not say",
                 [](S& s) { s.options.kl_coef = 1; }});
  for (const double coef : {0.1, 0.05, 0.01, 0.001}) {
    out.push_back(
        {"--kl-coef " + short_number(coef), {}, [coef](S& s) { s.options.kl_coef = coef; }});
  }
}

/// A KL in the loss: first whether there is one, then with which weight, which one in the rewards
/// excludes.
void add_kl_losses(Variants& out, const S& from) {
  const bool on = from.options.use_kl_loss;
  const auto add = [&](const std::string& name, const std::function<void(S&)>& apply) {
    out.push_back({on ? name : "--use-kl-loss with " + name, {}, [apply](S& s) {
                     s.options.use_kl_loss = true;
                     apply(s);
                   }});
  };
  if (!on) add_flag(out, from, &RunOptions::use_kl_loss, "--use-kl-loss");
  for (const std::string type : {"k1", "k2", "k3", "low_var_kl"}) {
    if (from.options.kl_loss_type == type) continue;
    add("--kl-loss-type " + type, [type](S& s) { s.options.kl_loss_type = type; });
  }
  const bool unbiased = from.options.use_unbiased_kl;
  add(unbiased ? "without --use-unbiased-kl" : "--use-unbiased-kl",
      [unbiased](S& s) { s.options.use_unbiased_kl = !unbiased; });
  add_zero(out, from, &RunOptions::kl_loss_coef, "--kl-loss-coef");
  if (from.options.kl_coef != 0) return;
  for (const double coef : {0.1, 0.05, 0.01, 0.005, 0.001, 0.0001}) {
    if (from.options.kl_loss_coef == coef) continue;
    add("--kl-loss-coef " + short_number(coef), [coef](S& s) { s.options.kl_loss_coef = coef; });
  }
}

/// Where in the policy's loss its recorded terms were taken.
void add_term(Variants& out, const S& from) {
  if (!from.options.use_tis && !from.options.use_opsm) return;
  const bool early = from.early_term;
  out.push_back({early ? "policy_loss after OPSM and TIS" : "policy_loss before OPSM and TIS",
                 is_slime(from) ? "the run's own code wrote the terms there"
                                : "Miles writes its policy_loss_debug before them",
                 [early](S& s) { s.early_term = !early; }});
}

/// Frameworks take a masked token into every sum, times 0.
void add_masked_nan(Variants& out, const S& from, const std::string& first) {
  if (first.empty()) return;
  const char* then = is_slime(from) ? "; slime sums what is masked times 0, and keeps the NaN"
                                    : "; Miles takes a mean of NaN, as GSPO and OPSM have it, as 0";
  const std::string returns =
      first +
      "; slime sums 128 tokens' returns as one product, masked ones times 0: a NaN is that "
      "of all of these tokens and of those before them";
  const std::string whitened =
      first + "; advantages are whitened by sums of what is masked times 0: one NaN is that of all";
  out.push_back(
      {.name = "the NaN of a masked token",
       .reason = first + then,
       .apply = [](S& s) { s.masked_nan = true; },
       .reasons = {{"returns", returns},
                   {"advantages", from.options.normalize_advantages ? whitened : returns}},
       .says_nan = true});
}

/// The estimators that choose a policy loss; all others have grpo's.
void add_policy_losses(Variants& out, const S& from) {
  const auto add = [&](const char* name, const char* reason) {
    if (from.options.advantage_estimator == name) return;
    out.push_back({std::string("--advantage-estimator ") + name, reason,
                   [name](S& s) { s.options.advantage_estimator = name; }});
  };
  const std::string& estimator = from.options.advantage_estimator;
  const bool own = estimator == "gspo" || estimator == "cispo" || estimator == "policy_gradient";
  if (own) add("grpo", "the clip of each token's ratio");
  add("gspo", "the clip of one ratio for the whole sample");
  if (is_slime(from)) add("cispo", "the clipped ratio as a constant weight");
  add("policy_gradient", "the plain policy loss, without ratio and clip");
}

}  // namespace

Variants recorded_variants(const S& from, const RunOptions& recorded) {
  const std::string reason(kAsRecorded);
  Variants out;
  std::vector<std::string> names;
  for (const Option& option : option_table()) {
    const std::string text = option_text(recorded, option);
    if (option.section != Section::kObjective || text == option_text(from.options, option))
      continue;
    const std::string flag = "--" + std::string(option.name);
    const bool off = text == "false" || text == "none";
    names.push_back(off ? "without " + flag : text == "true" ? flag : flag + " " + text);
    out.push_back({.name = names.back(),
                   .reason = reason,
                   .apply = [&option, text](S& s) { set_option(s.options, option, text); },
                   .says_nan = true});
  }
  if (out.size() > 2) {
    const Variants each = out;
    out.push_back({.name = joined_settings(names),
                   .reason = reason,
                   .apply =
                       [each](S& s) {
                         for (const ObjectiveVariant& variant : each) variant.apply(s);
                       },
                   .says_nan = true});
  }
  return out;
}

Variants advantage_variants(const S& from, size_t samples, const std::string& masked_nan) {
  Variants out;
  add_masked_nan(out, from, masked_nan);
  add_dialect(out, from, "");
  out.back().reasons = dialect_reasons(from);
  add_flag(out, from, &RunOptions::disable_grpo_std_normalization,
           "--disable-grpo-std-normalization");
  add_flag(out, from, &RunOptions::disable_rewards_normalization,
           "--disable-rewards-normalization");
  add_shaping32(out);
  add_whitening(out, from);
  add_groupings(out, from, samples);
  add_choices(
      out, from, &RunOptions::advantage_estimator, "--advantage-estimator",
      {"grpo", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "ppo", "policy_gradient"});
  add_discounts(out, from);
  add_reward_places(out, from);
  add_flag(out, from, &RunOptions::use_opd, "--use-opd");
  add_rollout_logprobs(out, from);
  add_zero(out, from, &RunOptions::kl_coef, "--kl-coef");
  add_kl_coefs(out, from);
  add_choices(out, from, &RunOptions::kl_loss_type, "--kl-loss-type",
              {"k1", "k2", "k3", "low_var_kl"});
  return out;
}

Variants loss_variants(const S& from, const std::string& masked_nan) {
  Variants out;
  add_masked_nan(out, from, masked_nan);
  add_flag(out, from, &RunOptions::calculate_per_token_loss, "--calculate-per-token-loss",
           "the mean over tokens gives long responses more weight than the mean over samples");
  add_dialect(
      out, from,
      "Miles clamps the log-ratio to +-20 and takes non-finite ones, and the terms of masked "
      "tokens, as 0");
  out.push_back(
      {"each sample for itself in the denominators",
       "the samples of a trajectory counted one by one, as before mask sums were recorded",
       [](S& s) { s.denominators = Denominators::kSamples; }});
  out.push_back({"the rollout's samples as denominator",
                 "divided by all samples of the rollout, not by those of the step",
                 [](S& s) { s.denominators = Denominators::kRollout; }});
  out.push_back({"masked tokens in the denominators",
                 "divided by the response's length, not by the sum of its mask",
                 [](S& s) { s.denominators = Denominators::kUnmasked; }});
  add_rollout_logprobs(out, from, "the sampler's log-probabilities are the old ones");
  if (!is_slime(from)) add_term(out, from);
  add_tis(out, from);
  add_flag(out, from, &RunOptions::use_opsm, "--use-opsm");
  if (is_slime(from)) add_term(out, from);
  add_policy_losses(out, from);
  if (from.options.eps_clip_high.value_or(0) != 0.28) {
    out.push_back({"--eps-clip-high 0.28", "the wider upper clip of DAPO's recipe",
                   [](S& s) { s.options.eps_clip_high = 0.28; }});
  }
  if (from.options.eps_clip_high) {
    out.push_back({"without --eps-clip-high", {}, [](S& s) { s.options.eps_clip_high.reset(); }});
  }
  if (from.options.eps_clip_c) {
    out.push_back({"without --eps-clip-c", {}, [](S& s) { s.options.eps_clip_c.reset(); }});
  } else {
    out.push_back({"--eps-clip-c 3", "dual clip", [](S& s) { s.options.eps_clip_c = 3; }});
  }
  if (from.options.eps_clip != 0.2) {
    out.push_back({"--eps-clip 0.2", "the default", [](S& s) { s.options.eps_clip = 0.2; }});
  }
  add_kl_losses(out, from);
  add_zero(out, from, &RunOptions::entropy_coef, "--entropy-coef");
  return out;
}

}  // namespace rlreplay::replay
