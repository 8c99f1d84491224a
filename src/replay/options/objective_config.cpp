#include "src/replay/options/objective_config.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "format/foreign/framework.h"
#include "src/base/error.h"

namespace rlreplay::replay {
namespace {

engine::KlType kl_type(const RunOptions& options) {
  if (options.kl_loss_type == "k2") return engine::KlType::kK2;
  if (options.kl_loss_type == "k3") return engine::KlType::kK3;
  if (options.kl_loss_type == "low_var_kl") return engine::KlType::kLowVar;
  check(options.kl_loss_type == "k1", "an unknown KL type passed the options' table");
  return engine::KlType::kK1;
}

/// What an estimator's name stands for.
struct NamedEstimator {
  std::string_view name;
  engine::Estimator estimator;
  engine::PolicyLoss policy_loss;
};

constexpr NamedEstimator kEstimators[] = {
    {"grpo", engine::Estimator::kGrpo, engine::PolicyLoss::kClip},
    {"gspo", engine::Estimator::kGrpo, engine::PolicyLoss::kSequence},
    {"cispo", engine::Estimator::kGrpo, engine::PolicyLoss::kCispo},
    {"reinforce_plus_plus", engine::Estimator::kReinforcePlusPlus, engine::PolicyLoss::kClip},
    {"reinforce_plus_plus_baseline", engine::Estimator::kReinforcePlusPlusBaseline,
     engine::PolicyLoss::kClip},
    {"ppo", engine::Estimator::kPpo, engine::PolicyLoss::kClip},
    {"policy_gradient", engine::Estimator::kPolicyGradient, engine::PolicyLoss::kPlain}};

const NamedEstimator& named_estimator(const RunOptions& options) {
  const auto found =
      std::ranges::find(kEstimators, options.advantage_estimator, &NamedEstimator::name);
  check(found != std::end(kEstimators), "an unknown estimator passed the options' table");
  return *found;
}

template <typename Member>
std::vector<std::string> same_estimators(const RunOptions& options,
                                         Member NamedEstimator::*member) {
  const NamedEstimator& own = named_estimator(options);
  const bool miles = dialect(options) == engine::Dialect::kMiles;
  std::vector<std::string> out;
  for (const NamedEstimator& other : kEstimators) {
    const bool there = !miles || other.policy_loss != engine::PolicyLoss::kCispo;
    if (there && other.name != own.name && other.*member == own.*member) {
      out.emplace_back(other.name);
    }
  }
  return out;
}

}  // namespace

engine::Dialect dialect(const RunOptions& options) {
  const bool miles = options.dialect == to_string(foreign::Framework::kMiles);
  return miles ? engine::Dialect::kMiles : engine::Dialect::kSlime;
}

std::vector<std::string> same_advantages(const RunOptions& options) {
  return same_estimators(options, &NamedEstimator::estimator);
}

std::vector<std::string> same_policy_loss(const RunOptions& options) {
  return same_estimators(options, &NamedEstimator::policy_loss);
}

engine::ObjectiveConfig objective_config(const RunOptions& options) {
  engine::ObjectiveConfig out;
  out.dialect = dialect(options);
  out.policy_loss = named_estimator(options).policy_loss;
  out.reducer =
      options.calculate_per_token_loss ? engine::Reducer::kTokenMean : engine::Reducer::kSampleMean;
  out.eps_clip = options.eps_clip;
  out.eps_clip_high = options.eps_clip_high.value_or(options.eps_clip);
  if (options.eps_clip_c) out.eps_clip_c = *options.eps_clip_c;
  out.kl_loss = options.use_kl_loss;
  out.kl_loss_coef = options.kl_loss_coef;
  out.kl_loss_type = kl_type(options);
  out.unbiased_kl = options.use_unbiased_kl;
  out.entropy_coef = options.entropy_coef;
  if (options.use_tis) {
    out.tis = engine::Tis{options.tis_clip_low, options.tis_clip};
  }
  if (options.use_opsm) out.opsm_delta = options.opsm_delta;
  return out;
}

engine::AdvantageConfig advantage_config(const RunOptions& options) {
  engine::AdvantageConfig out;
  out.estimator = named_estimator(options).estimator;
  out.dialect = dialect(options);
  out.normalize_rewards = !options.disable_rewards_normalization;
  // slime's arguments.py switches it off where groups have one sample; Miles looks at each group.
  const bool of_one = options.n_samples_per_prompt == 1 && out.dialect == engine::Dialect::kSlime;
  out.normalize_std = !options.disable_grpo_std_normalization && !of_one;
  out.normalize_advantages = options.normalize_advantages;
  out.kl_coef = options.kl_coef;
  out.kl_type = kl_type(options);
  out.gamma = options.gamma;
  out.lambda = options.lambd;
  out.announced_samples = rollout_samples(options);
  out.group_size = options.n_samples_per_prompt;
  if (options.use_opd) out.opd_kl_coef = options.opd_kl_coef;
  return out;
}

bool needs_reference(const RunOptions& options) {
  return options.kl_coef != 0 || options.use_kl_loss;
}

}  // namespace rlreplay::replay
