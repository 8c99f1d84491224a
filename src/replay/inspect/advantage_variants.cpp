#include "src/base/text_table.h"
#include "src/replay/inspect/shared_variants.h"

namespace rlreplay::replay {
namespace {

using S = ObjectiveSetting;
using Variants = std::vector<ObjectiveVariant>;

constexpr int64_t kMostRanks = 8;  // of context parallelism, that are tried

/// Adds each of `choices` that the option has not.
void add_choices(Variants& out, const S& from, std::string RunOptions::*field,
                 const std::string& name, std::initializer_list<const char*> choices,
                 const std::string& reason = {}) {
  for (const std::string choice : choices) {
    if (from.options.*field == choice) continue;
    out.push_back(
        {name + " " + choice, reason, [field, choice](S& s) { s.options.*field = choice; }});
  }
}

/// Why the other dialect gives other numbers, for each quantity from rewards to advantages.
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

/// Adds shape_binary32.
void add_shaping32(Variants& out) {
  out.push_back({"rewards shaped in binary32",
                 "slime and Miles take a group's mean in binary32: of rewards that lie close "
                 "together few digits of the distance from it are left",
                 [](S& s) { s.shape_binary32 = true; }});
}

/// Adds other groups of rewards: all samples, those of a prompt, and consecutive ones by number.
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

/// Adds gamma for the estimators that discount, and lambda for GAE, at values that are in use.
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

/// Adds, under slime's GAE, the token at which the reward is added (reward_ranks), and reward_kl as
/// what tokens were rewarded with (charged_kl).
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

/// Adds whitening, or none where the options have it, and its other statistics: of a step, in
/// binary32, and of each rank of context parallelism.
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

/// Adds a KL in the rewards where there is none. reward_kl, the estimate alone, is the same under
/// any coefficient but 0, returns are not: so one setting names no coefficient.
void add_kl_coefs(Variants& out, const S& from) {
  if (from.options.kl_coef != 0) return;
  out.push_back({"a --kl-coef other than 0", "which one the estimate itself does not say",
                 [](S& s) { s.options.kl_coef = 1; }});
  for (const double coef : {0.1, 0.05, 0.01, 0.001}) {
    out.push_back(
        {"--kl-coef " + short_number(coef), {}, [coef](S& s) { s.options.kl_coef = coef; }});
  }
}

}  // namespace

Variants advantage_variants(const S& from, size_t samples, const std::string& masked_nan) {
  Variants out;
  add_masked_nan(out, from, masked_nan);
  // Miles takes a recorded reverse KL as it is: an option that computes it says more.
  add_rollout_logprobs(out, from);
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
  add_zero(out, from, &RunOptions::kl_coef, "--kl-coef");
  add_kl_coefs(out, from);
  add_choices(out, from, &RunOptions::kl_loss_type, "--kl-loss-type",
              {"k1", "k2", "k3", "low_var_kl"});
  return out;
}

}  // namespace rlreplay::replay
