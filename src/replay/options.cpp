#include "src/replay/options.h"

#include <algorithm>

#include "src/base/error.h"

namespace rlreplay::replay {
namespace {

using O = RunOptions;
using S = Section;

constexpr double kNonNegative = 0;
constexpr double kPositive = 4.9e-324;

constexpr Option kTable[] = {
    {"model", S::kModel, &O::model,
     "checkpoint folder (config.json, safetensors, tokenizer.json), or demo"},
    {"ref-load", S::kModel, &O::ref_load,
     "checkpoint of the reference model (default: the model at its start)"},
    {"save", S::kModel, &O::save, "folder for the trained weights, as a checkpoint"},
    {"rope", S::kModel, &O::rope,
     "rounding of rotary angles: as trained engines have them, or not at all", "hf|exact"},

    {"prompts", S::kPrompts, &O::prompts, "JSONL file of prompts", {}, "prompt-data"},
    {"input-key", S::kPrompts, &O::input_key,
     "key of the prompt in a line (default: found by itself)"},
    {"label-key", S::kPrompts, &O::label_key,
     "key of the label in a line (default: found by itself)"},
    {"apply-chat-template", S::kPrompts, &O::apply_chat_template,
     "render a text prompt as a message of the user"},
    {"reward", S::kPrompts, &O::reward, "how a response is judged", "exact|gsm8k|command"},
    {"reward-command", S::kPrompts, &O::reward_command,
     "program that reads JSONL and answers a number a line"},
    {"reward-time-limit",
     S::kPrompts,
     &O::reward_time_limit,
     "seconds for one batch of rewards",
     {},
     {},
     kPositive},

    {"rollout-batch-size", S::kRollout, &O::rollout_batch_size, "prompts of a rollout", {}, {}, 1},
    {"n-samples-per-prompt",
     S::kRollout,
     &O::n_samples_per_prompt,
     "responses to each prompt: a group",
     {},
     {},
     1},
    {"rollout-max-response-len",
     S::kRollout,
     &O::rollout_max_response_len,
     "tokens of a response at most",
     {},
     {},
     1},
    {"rollout-temperature",
     S::kRollout,
     &O::rollout_temperature,
     "0 takes the likeliest token",
     {},
     {},
     kNonNegative},
    {"rollout-top-p",
     S::kRollout,
     &O::rollout_top_p,
     "probability mass that is kept",
     {},
     {},
     kPositive},
    {"rollout-top-k",
     S::kRollout,
     &O::rollout_top_k,
     "likeliest tokens that are kept, -1 for all",
     {},
     {},
     -1},
    {"rollout-seed",
     S::kRollout,
     &O::rollout_seed,
     "seed of the sampling noise",
     {},
     {},
     kNonNegative},
    {"rollout-stop-token-ids",
     S::kRollout,
     &O::rollout_stop_token_ids,
     "ids that end a response besides the model's own",
     {},
     {},
     kNonNegative},
    {"rollout-slots",
     S::kRollout,
     &O::rollout_slots,
     "samples generated at once (speed only)",
     {},
     {},
     1},

    {"num-rollout", S::kSchedule, &O::num_rollout, "rollouts to run", {}, "rollouts", 1},
    {"steps",
     S::kSchedule,
     &O::steps,
     "optimizer steps to run, instead of --num-rollout",
     {},
     {},
     1},
    {"num-steps-per-rollout",
     S::kSchedule,
     &O::num_steps_per_rollout,
     "optimizer steps a rollout",
     {},
     {},
     1},
    {"global-batch-size",
     S::kSchedule,
     &O::global_batch_size,
     "samples of an optimizer step, instead of --num-steps-per-rollout",
     {},
     {},
     1},

    {"dialect", S::kObjective, &O::dialect, "whose formulas where frameworks differ",
     "slime|miles"},
    {"advantage-estimator", S::kObjective, &O::advantage_estimator, "from rewards to advantages",
     "grpo|reinforce_plus_plus_baseline|policy_gradient"},
    {"disable-rewards-normalization", S::kObjective, &O::disable_rewards_normalization,
     "leave rewards as they are"},
    {"disable-grpo-std-normalization", S::kObjective, &O::disable_grpo_std_normalization,
     "do not divide by the group's deviation"},
    {"normalize-advantages", S::kObjective, &O::normalize_advantages,
     "whiten advantages over the rollout"},
    {"eps-clip", S::kObjective, &O::eps_clip, "ratio's lower clip, 1 - eps", {}, {}, kNonNegative},
    {"eps-clip-high",
     S::kObjective,
     &O::eps_clip_high,
     "ratio's upper clip, 1 + eps (default: --eps-clip)",
     {},
     {},
     kNonNegative},
    {"eps-clip-c", S::kObjective, &O::eps_clip_c, "dual clip, above 1", {}, {}, 1},
    {"kl-coef",
     S::kObjective,
     &O::kl_coef,
     "KL against the reference in the reward",
     {},
     {},
     kNonNegative},
    {"use-kl-loss", S::kObjective, &O::use_kl_loss,
     "compute the KL against the reference in the loss"},
    {"kl-loss-coef",
     S::kObjective,
     &O::kl_loss_coef,
     "KL against the reference in the loss",
     {},
     {},
     kNonNegative},
    {"kl-loss-type", S::kObjective, &O::kl_loss_type, "estimator of the KL", "k1|k2|k3|low_var_kl"},
    {"entropy-coef",
     S::kObjective,
     &O::entropy_coef,
     "weight of the entropy in the loss",
     {},
     {},
     kNonNegative},
    {"use-tis", S::kObjective, &O::use_tis,
     "weigh tokens by truncated importance sampling against the rollout"},
    {"tis-clip", S::kObjective, &O::tis_clip, "upper end of that weight", {}, {}, kNonNegative},
    {"tis-clip-low",
     S::kObjective,
     &O::tis_clip_low,
     "lower end of that weight",
     {},
     {},
     kNonNegative},
    {"calculate-per-token-loss", S::kObjective, &O::calculate_per_token_loss,
     "mean over tokens, not over samples"},

    {"lr", S::kOptimizer, &O::lr, "learning rate", {}, {}, kNonNegative},
    {"min-lr", S::kOptimizer, &O::min_lr, "where the rate's decay ends", {}, {}, kNonNegative},
    {"lr-decay-style", S::kOptimizer, &O::lr_decay_style, "how the rate decays",
     "constant|linear|cosine"},
    {"lr-warmup-iters",
     S::kOptimizer,
     &O::lr_warmup_iters,
     "steps of linear warm-up",
     {},
     {},
     kNonNegative},
    {"lr-warmup-init",
     S::kOptimizer,
     &O::lr_warmup_init,
     "rate where the warm-up begins",
     {},
     {},
     kNonNegative},
    {"lr-decay-iters",
     S::kOptimizer,
     &O::lr_decay_iters,
     "steps until the decay ends (default: all steps)",
     {},
     {},
     1},
    {"adam-beta1",
     S::kOptimizer,
     &O::adam_beta1,
     "decay of the first moment",
     {},
     {},
     kNonNegative},
    {"adam-beta2",
     S::kOptimizer,
     &O::adam_beta2,
     "decay of the second moment",
     {},
     {},
     kNonNegative},
    {"adam-eps",
     S::kOptimizer,
     &O::adam_eps,
     "added to the root of the second moment",
     {},
     {},
     kNonNegative},
    {"weight-decay",
     S::kOptimizer,
     &O::weight_decay,
     "decoupled weight decay",
     {},
     {},
     kNonNegative},
    {"decay-vectors", S::kOptimizer, &O::decay_vectors,
     "let biases and norms decay too, as torch does"},
    {"clip-grad",
     S::kOptimizer,
     &O::clip_grad,
     "largest gradient norm, 0 for none",
     {},
     {},
     kNonNegative},

    {"seed", S::kMachine, &O::seed, "seed of initial weights (demo)", {}, {}, kNonNegative},
    {"micro-batch-size",
     S::kMachine,
     &O::micro_batch_size,
     "samples in memory at once, 0 for all (bits unchanged)",
     {},
     {},
     kNonNegative},
    {"recompute", S::kMachine, &O::recompute,
     "keep a layer's input only, less memory (bits unchanged)"},
    {"threads",
     S::kMachine,
     &O::threads,
     "0: one a processor (bits unchanged)",
     {},
     {},
     kNonNegative},
    {"kernels", S::kMachine, &O::kernels, "kernel set: ours, or stock operators to compare with",
     "portable|torch"},
    {"layout", S::kMachine, &O::layout, "ranks by kind of parallelism (this version: one of each)"},
    {"device", S::kMachine, &O::device, "where it runs", "cpu"},

    {"record", S::kRecord, &O::record,
     "steps, tensors or ops, then +stats and +values where wanted"},
    {"weights", S::kRecord, &O::weights,
     "which steps' weights a dump holds: all, first, every=N or none"},
    {"rollout-only", S::kRecord, &O::rollout_only, "generate and judge, do not train"},
};

constexpr std::string_view kSupportedLayout = "dp=1,tp=1,pp=1,cp=1,ep=1";

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return (x == '_' ? '-' : x) == (y == '_' ? '-' : y); });
}

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::kUsage, message); }

void check_layout(const std::string& layout) {
  std::string_view rest = layout;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, end);
    const bool known = part.size() > 3 && part[2] == '=' &&
                       kSupportedLayout.find(part.substr(0, 3)) != std::string_view::npos;
    if (!known)
      refuse("--layout: \"" + std::string(part) + "\" is none of dp=, tp=, pp=, cp=, ep=");
    if (part.substr(3) != "1") {
      throw Error(ErrorCode::kUnsupported, "--layout " + layout + ": this version runs one rank, " +
                                               std::string(kSupportedLayout));
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

}  // namespace

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

std::span<const Option> option_table() { return kTable; }

const Option* find_option(std::string_view name) {
  for (const Option& option : kTable) {
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

int64_t planned_steps(const RunOptions& options) {
  if (options.steps) return *options.steps;
  return options.num_rollout.value_or(1) * (rollout_samples(options) / step_samples(options));
}

void check_options(const RunOptions& options) {
  const int64_t samples = rollout_samples(options);
  if (options.steps && options.num_rollout) {
    refuse("--steps and --num-rollout both say how long the run is: give one of them");
  }
  if (options.global_batch_size && options.num_steps_per_rollout != 1) {
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
  if (options.reward == "command" && options.reward_command.empty()) {
    refuse("--reward command needs --reward-command");
  }
  check_layout(options.layout);
}

}  // namespace rlreplay::replay
