#include "src/replay/options/option_needs.h"

#include <algorithm>
#include <iterator>

#include "src/replay/options/objective_config.h"

namespace rlreplay::replay {
namespace {

using O = RunOptions;
using engine::Estimator;

Estimator estimator(const O& o) { return advantage_config(o).estimator; }
engine::PolicyLoss policy_loss(const O& o) { return objective_config(o).policy_loss; }

bool clips(const O& o) { return policy_loss(o) != engine::PolicyLoss::kPlain; }
bool decays(const O& o) { return o.lr_decay_style != "constant"; }
bool draws(const O& o) { return o.rollout_temperature > 0; }
bool weighs(const O& o) { return o.use_tis; }

constexpr std::string_view kClips = "a policy loss that clips (not policy_gradient)";
constexpr std::string_view kDecays = "--lr-decay-style linear or cosine";
constexpr std::string_view kDraws = "--rollout-temperature above 0";

constexpr OptionNeed kNeeds[] = {
    {"rollout-top-p", draws, kDraws},
    {"rollout-top-k", draws, kDraws},
    {"rollout-seed", draws, kDraws},
    {"disable-rewards-normalization",
     [](const O& o) { return advantage_config(o).compares_rewards(); },
     "--advantage-estimator grpo, gspo, cispo or reinforce_plus_plus_baseline"},
    {"disable-grpo-std-normalization",
     [](const O& o) {
       return estimator(o) == Estimator::kGrpo && !o.disable_rewards_normalization;
     },
     "--advantage-estimator grpo, gspo or cispo with normalized rewards"},
    {"gamma",
     [](const O& o) {
       return estimator(o) == Estimator::kReinforcePlusPlus || estimator(o) == Estimator::kPpo;
     },
     "--advantage-estimator reinforce_plus_plus or ppo"},
    {"lambd", [](const O& o) { return estimator(o) == Estimator::kPpo; },
     "--advantage-estimator ppo"},
    {"opd-kl-coef", [](const O& o) { return o.use_opd; }, "--use-opd"},
    {"eps-clip", clips, kClips},
    {"eps-clip-high", clips, kClips},
    {"eps-clip-c",
     [](const O& o) { return clips(o) && policy_loss(o) != engine::PolicyLoss::kCispo; },
     "a policy loss with a dual clip (not policy_gradient, not cispo)"},
    {"kl-loss-type", [](const O& o) { return o.use_kl_loss || advantage_config(o).reads_kl(); },
     "--use-kl-loss, or --kl-coef under an estimator that reads it"},
    {"tis-clip", weighs, "--use-tis"},
    {"tis-clip-low", weighs, "--use-tis"},
    {"opsm-delta", [](const O& o) { return o.use_opsm; }, "--use-opsm"},
    {"value-clip", [](const O&) { return false; },
     "a critic's value loss, which only rlreplay objective computes"},
    {"min-lr", decays, kDecays},
    {"lr-decay-iters", decays, kDecays},
    {"lr-warmup-init", [](const O& o) { return o.lr_warmup_iters > 0; }, "--lr-warmup-iters"},
    {"decay-vectors", [](const O& o) { return o.weight_decay != 0; }, "--weight-decay"},
};

}  // namespace

const OptionNeed* unmet_need(const Option& option, const RunOptions& options) {
  const auto* need = std::ranges::find(kNeeds, option.name, &OptionNeed::option);
  return need == std::end(kNeeds) || need->met(options) ? nullptr : need;
}

}  // namespace rlreplay::replay
