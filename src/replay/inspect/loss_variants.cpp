#include "src/base/text_table.h"
#include "src/replay/inspect/shared_variants.h"

namespace rlreplay::replay {
namespace {

using S = ObjectiveSetting;
using Variants = std::vector<ObjectiveVariant>;

/// Adds the other value of --use-tis. TIS weighs the old log-probabilities against the sampler's,
/// and so goes without --use-rollout-logprobs, under which the two are the same.
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

/// Adds settings of the KL in the total loss: whether there is one, which estimate it is, and its
/// coefficient: only 0 where the rewards are charged with a KL.
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

/// Adds the other early_term: policy_loss after OPSM and TIS, or before; nothing without either.
void add_term(Variants& out, const S& from) {
  if (!from.options.use_tis && !from.options.use_opsm) return;
  const bool early = from.early_term;
  out.push_back({early ? "policy_loss after OPSM and TIS" : "policy_loss before OPSM and TIS",
                 is_slime(from) ? "the run's own code wrote the terms there"
                                : "Miles writes its policy_loss_debug before them",
                 [early](S& s) { s.early_term = !early; }});
}

/// Adds an estimator for each other policy loss: grpo stands for all that clip each token's ratio.
void add_policy_losses(Variants& out, const S& from) {
  const auto add = [&](const char* name, const char* reason) {
    if (from.options.advantage_estimator == name) return;
    out.push_back(
        {kEstimatorSetting + name, reason, [name](S& s) { s.options.advantage_estimator = name; }});
  };
  const std::string& estimator = from.options.advantage_estimator;
  const bool own = estimator == "gspo" || estimator == "cispo" || estimator == "policy_gradient";
  if (own) add("grpo", "the clip of each token's ratio");
  add("gspo", "the clip of one ratio for the whole sample");
  if (is_slime(from)) add("cispo", "the clipped ratio as a constant weight");
  add("policy_gradient", "the plain policy loss, without ratio and clip");
}

}  // namespace

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
