#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// The options of a run: one struct, and one table that names each of its fields for the command
/// line, configuration files and dumps alike.
namespace rlreplay::replay {

/// Names and defaults are slime's where slime has the option.
struct RunOptions {
  // Model
  std::string model;  // a checkpoint's folder, or "demo"
  std::string ref_load;
  std::string save;
  std::string rope = "hf";

  // Prompts and rewards
  std::string prompts;
  std::string input_key;
  std::string label_key;
  bool apply_chat_template = false;
  std::string reward = "exact";
  std::string reward_command;
  double reward_time_limit = 600;

  // Rollout
  int64_t rollout_batch_size = 8;
  int64_t n_samples_per_prompt = 8;
  int64_t rollout_max_response_len = 256;
  double rollout_temperature = 1;
  double rollout_top_p = 1;
  int64_t rollout_top_k = -1;
  int64_t rollout_seed = 42;
  std::vector<int64_t> rollout_stop_token_ids;
  int64_t rollout_slots = 32;

  // Schedule
  std::optional<int64_t> num_rollout;
  std::optional<int64_t> steps;
  int64_t num_steps_per_rollout = 1;
  std::optional<int64_t> global_batch_size;

  // Objective
  std::string dialect = "slime";
  std::string advantage_estimator = "grpo";
  bool disable_rewards_normalization = false;
  bool disable_grpo_std_normalization = false;
  bool normalize_advantages = false;
  double gamma = 1;
  double lambd = 1;
  bool use_opd = false;
  double opd_kl_coef = 1;
  bool use_rollout_logprobs = false;
  double eps_clip = 0.2;
  std::optional<double> eps_clip_high;
  std::optional<double> eps_clip_c;
  double kl_coef = 0;
  bool use_kl_loss = false;
  double kl_loss_coef = 0;
  std::string kl_loss_type = "k1";
  bool use_unbiased_kl = false;
  double entropy_coef = 0;
  bool use_tis = false;
  double tis_clip = 2;
  double tis_clip_low = 0;
  bool use_opsm = false;
  double opsm_delta = 1e-4;
  double value_clip = 0.2;
  bool calculate_per_token_loss = false;

  // Optimizer
  double lr = 1e-6;
  double min_lr = 0;
  std::string lr_decay_style = "constant";
  int64_t lr_warmup_iters = 0;
  double lr_warmup_init = 0;
  std::optional<int64_t> lr_decay_iters;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_eps = 1e-8;
  double weight_decay = 0.01;
  bool decay_vectors = false;
  double clip_grad = 1;

  // Where and how it runs
  int64_t seed = 1234;
  int64_t micro_batch_size = 0;
  bool recompute = false;
  int64_t threads = 0;
  std::string kernels = "portable";
  std::string layout = "dp=1,tp=1,pp=1,cp=1,ep=1";
  std::string ranks_as = "threads";
  int64_t rank_timeout = 60;
  std::string device = "cpu";

  // What a capture writes
  std::string record = "steps";
  std::string weights = "first";
  bool rollout_only = false;
};

/// Samples of a rollout and steps of a run at most, and what every count of the table is at most.
inline constexpr int64_t kMaxCount = INT32_MAX;

/// The part of the help, and of a configuration file, that an option stands in.
enum class Section {
  kModel,
  kPrompts,
  kRollout,
  kSchedule,
  kObjective,
  kOptimizer,
  kMachine,
  kRecord
};

/// The heading over a section: "Prompts and rewards".
[[nodiscard]] std::string_view title(Section section);

using Field = std::variant<bool RunOptions::*, int64_t RunOptions::*, double RunOptions::*,
                           std::string RunOptions::*, std::optional<int64_t> RunOptions::*,
                           std::optional<double> RunOptions::*, std::vector<int64_t> RunOptions::*>;

/// One option as users meet it.
struct Option {
  std::string_view name;  // without dashes; keys of files may use _ for -
  Section section;
  Field field;
  std::string_view help;
  std::string_view choices = {};  // "a|b" where only these are taken
  std::string_view alias = {};
  double min = -1.7e308;  // of a number
  double max = 1.7e308;
  bool binary32 = false;  // computed with as such: what is not 0 must not become 0
};

/// All options, in the order of --help.
[[nodiscard]] std::span<const Option> option_table();

/// The option of this name or alias, - and _ alike; null where there is none.
[[nodiscard]] const Option* find_option(std::string_view name);

/// Sets an option from a text: "true", "3", "0.5", "7,8", "none" for an optional one.
/// Errors: kUsage, naming the option, the text and what is accepted.
void set_option(RunOptions& options, const Option& option, std::string_view text);

/// The text that set_option takes back: numbers in the shortest form that keeps their bits.
[[nodiscard]] std::string option_text(const RunOptions& options, const Option& option);

/// A name and a text, as given by a flag, a file or a dump.
using Setting = std::pair<std::string, std::string>;

/// Every option with its text, in the table's order.
[[nodiscard]] std::vector<Setting> settings(const RunOptions& options);

/// What a run of the demo uses where neither its user nor a file says something: an on-policy run
/// whose reward rises from about 0.5 to 0.8 in some five steps.
[[nodiscard]] std::vector<Setting> demo_settings();

/// Sets the options that are named, one after the other: the last one of a name counts.
/// Errors: kUsage for a name that is no option (one that is near is proposed); those of set_option.
void apply_settings(RunOptions& options, std::span<const Setting> settings);

/// Throws kUsage: there is no such option, and which may have been meant.
[[noreturn]] void refuse_option(std::string_view name);

/// What no single option can see: contradictions, and sizes whose products no run can have.
/// Errors: kUsage, kUnsupported.
void check_options(const RunOptions& options);

/// Sees, after check_options, that the steps of a run that generates divide its rollouts.
/// Errors: kUsage.
void check_batches(const RunOptions& options);

/// Sees that a run asks for no column that only a record could give.
/// Errors: kUnsupported for what a critic or a teacher would compute.
void check_on_policy(const RunOptions& options);

/// Optimizer steps that the run takes: --steps, or --num-rollout times steps per rollout.
[[nodiscard]] int64_t planned_steps(const RunOptions& options);

/// Optimizer steps of a rollout, at least 1.
[[nodiscard]] int64_t steps_per_rollout(const RunOptions& options);

/// Samples of an optimizer step (at least 1 after check_batches) and of a rollout.
[[nodiscard]] int64_t step_samples(const RunOptions& options);
[[nodiscard]] int64_t rollout_samples(const RunOptions& options);

}  // namespace rlreplay::replay
