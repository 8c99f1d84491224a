#include "src/replay/options/options.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/base/layout.h"
#include "src/base/with_place.h"
#include "src/replay/options/objective_config.h"

namespace rlreplay::replay {
namespace {

using S = Section;

/// Python's spelling of an option, rollout_top_p, is the option too.
bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return (x == '_' ? '-' : x) == (y == '_' ? '-' : y); });
}

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::kUsage, message); }

void check_layout(const RunOptions& options) {
  const Layout layout = with_place("--layout", [&] { return parse_layout(options.layout); });
  if (layout.ranks() > 1 && options.kernels != "portable") {
    throw Error(ErrorCode::kUnsupported,
                "--layout " + options.layout + ": --kernels " + options.kernels +
                    " runs in one rank; --kernels portable has the same bits in every layout");
  }
}

/// The table bounds each factor by kMaxCount, so that no product overflows.
void check_sizes(const RunOptions& options) {
  if (rollout_samples(options) > kMaxCount) {
    refuse("--rollout-batch-size " + std::to_string(options.rollout_batch_size) +
           " times --n-samples-per-prompt " + std::to_string(options.n_samples_per_prompt) +
           " are more samples than a rollout can have, " + std::to_string(kMaxCount));
  }
  if (planned_steps(options) > kMaxCount) {
    refuse("--num-rollout " + std::to_string(options.num_rollout.value_or(1)) + " of " +
           std::to_string(steps_per_rollout(options)) +
           " steps each are more steps than a run can have, " + std::to_string(kMaxCount));
  }
}

}  // namespace

std::vector<Setting> demo_settings() {
  return {{"rollout-batch-size", "32"},
          {"n-samples-per-prompt", "8"},
          {"rollout-max-response-len", "8"},
          {"rollout-slots", "256"},
          {"lr", "5e-4"}};
}

std::string_view title(Section section) {
  switch (section) {
    case S::kModel:
      return "Model";
    case S::kPrompts:
      return "Prompts and rewards";
    case S::kRollout:
      return "Rollout";
    case S::kSchedule:
      return "Schedule";
    case S::kObjective:
      return "Objective";
    case S::kOptimizer:
      return "Optimizer";
    case S::kMachine:
      return "Machine";
    case S::kRecord:
      return "Record";
  }
  return "?";
}

const Option* find_option(std::string_view name) {
  for (const Option& option : option_table()) {
    if (same_name(option.name, name)) return &option;
    if (!option.alias.empty() && same_name(option.alias, name)) return &option;
  }
  return nullptr;
}

int64_t rollout_samples(const RunOptions& options) {
  return options.rollout_batch_size * options.n_samples_per_prompt;
}

int64_t step_samples(const RunOptions& options) {
  return options.global_batch_size ? *options.global_batch_size
                                   : rollout_samples(options) / options.num_steps_per_rollout;
}

int64_t steps_per_rollout(const RunOptions& options) {
  if (!options.global_batch_size) return options.num_steps_per_rollout;
  return std::max<int64_t>(1, rollout_samples(options) / *options.global_batch_size);
}

int64_t planned_steps(const RunOptions& options) {
  if (options.steps) return *options.steps;
  return options.num_rollout.value_or(1) * steps_per_rollout(options);
}

void check_on_policy(const RunOptions& options) {
  const auto refuse = [](const std::string& message) {
    throw Error(ErrorCode::kUnsupported,
                message + "; train --from a dump that holds what it computed takes that");
  };
  if (options.advantage_estimator == "ppo") {
    refuse("--advantage-estimator ppo needs a critic, and this version has no value head");
  }
  if (options.use_opd) refuse("--use-opd needs a teacher, and this version runs none");
}

void check_options(const RunOptions& options) {
  if (options.steps && options.num_rollout) {
    refuse("--steps and --num-rollout both say how long the run is: give one of them");
  }
  if (options.rollout_top_p > 1) refuse("--rollout-top-p is a share: above 0, at most 1");
  if (options.eps_clip_c && *options.eps_clip_c <= 1) refuse("--eps-clip-c must be above 1");
  if (options.adam_beta1 >= 1 || options.adam_beta2 >= 1)
    refuse("--adam-beta1 and --adam-beta2 must be below 1");
  if (options.kl_coef != 0 && options.kl_loss_coef != 0) {
    refuse("--kl-coef and --kl-loss-coef exclude each other: KL in the reward, or in the loss");
  }
  if (options.kl_loss_coef != 0 && !options.use_kl_loss) {
    refuse("--kl-loss-coef has no effect without --use-kl-loss");
  }
  if (options.use_unbiased_kl && !options.use_kl_loss) {
    refuse("--use-unbiased-kl has no effect without --use-kl-loss");
  }
  if (options.use_rollout_logprobs && options.use_tis) {
    refuse(
        "--use-tis and --use-rollout-logprobs exclude each other: the rollout's log-probabilities "
        "are the old ones already");
  }
  if (dialect(options) == engine::Dialect::kMiles && options.advantage_estimator == "cispo") {
    refuse("--advantage-estimator cispo: Miles has no such estimator (--dialect slime has)");
  }
  if (options.reward == "command" && options.reward_command.empty()) {
    refuse("--reward command needs --reward-command");
  }
  if (options.reward_time_limit > 1e9) refuse("--reward-time-limit is at most 1e9 seconds");
  check_sizes(options);
  check_layout(options);
}

void check_batches(const RunOptions& options) {
  const int64_t samples = rollout_samples(options);
  if (options.global_batch_size && options.num_steps_per_rollout != 1 &&
      *options.global_batch_size * options.num_steps_per_rollout != samples) {
    refuse("--global-batch-size and --num-steps-per-rollout both cut a rollout: give one of them");
  }
  if (options.global_batch_size && samples % *options.global_batch_size != 0) {
    refuse("--global-batch-size " + std::to_string(*options.global_batch_size) +
           " does not divide the " + std::to_string(samples) +
           " samples of a rollout (--rollout-batch-size times --n-samples-per-prompt)");
  }
  if (samples % options.num_steps_per_rollout != 0) {
    refuse("--num-steps-per-rollout " + std::to_string(options.num_steps_per_rollout) +
           " does not divide the " + std::to_string(samples) + " samples of a rollout");
  }
}

}  // namespace rlreplay::replay
