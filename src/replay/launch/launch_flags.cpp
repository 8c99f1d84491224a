#include "src/replay/launch/launch_flags.h"

#include <algorithm>

#include "src/base/ascii.h"
#include "src/base/words.h"

namespace rlreplay::replay {
namespace {

enum class FlagClass {
  kOwn,
  kNumbers,  // of the launcher's run: what it computes
  kNothing,
};
using enum FlagClass;

struct Row {
  std::string_view prefix;
  std::string_view values;
  FlagClass what;
  std::string_view names;  // each between two spaces
};

constexpr Row kRows[] = {
#include "src/replay/launch/launch_flags.inc"
};

/// A flag that changes numbers unless its value is `honoured`.
struct Refusal {
  std::string_view name;  // with * for any ending
  Reach reach;
  std::string_view honoured;  // values apart by spaces
  std::string_view reason;
};

constexpr std::string_view kOwnCode = "the code that it names is not run";
constexpr std::string_view kSchedule =
    "no such schedule: use --lr, --lr-decay-style, "
    "--lr-warmup-iters, --lr-decay-iters, --weight-decay";
constexpr std::string_view kReward =
    "its rewards are not built in: choose --reward exact, gsm8k "
    "or command";
constexpr std::string_view kSampling = "which samples a rollout keeps is not decided so here";
constexpr std::string_view kAllTrain = "all parameters are trained";

constexpr Refusal kRefusals[] = {
    {"loss-type", Reach::kObjective, "policy_loss", "the policy loss is the only one"},
    {"custom-loss-function-path", Reach::kObjective, "", kOwnCode},
    {"custom-advantage-function-path", Reach::kObjective, "", kOwnCode},
    {"custom-pg-loss-reducer-function-path", Reach::kObjective, "", kOwnCode},
    {"custom-tis-function-path", Reach::kObjective, "", kOwnCode},
    {"custom-reward-post-process-path", Reach::kObjective, "", kOwnCode},
    {"custom-config-path", Reach::kObjective, "", "its settings are not read"},
    {"disable-compute-advantages-and-returns", Reach::kObjective, "", "advantages are always used"},
    {"use-dynamic-global-batch-size", Reach::kObjective, "", "the batch has a fixed size"},

    {"optimizer", Reach::kTraining, "adam", "AdamW is the only optimizer"},
    {"use-stateless-adam", Reach::kTraining, "", "AdamW keeps its moments"},
    {"reset-optimizer-states", Reach::kTraining, "", "AdamW keeps its moments"},
    {"ref-update-interval", Reach::kTraining, "", "the reference model stays as it is"},
    {"attention-dropout", Reach::kTraining, "0 0.0", "there is no dropout"},
    {"hidden-dropout", Reach::kTraining, "0 0.0", "there is no dropout"},
    {"lr-warmup-fraction", Reach::kTraining, "0 0.0", kSchedule},
    {"lr-warmup-samples", Reach::kTraining, "0", kSchedule},
    {"lr-decay-samples", Reach::kTraining, "", kSchedule},
    {"lr-wsd-*", Reach::kTraining, "", kSchedule},
    {"decoupled-lr", Reach::kTraining, "", kSchedule},
    {"decoupled-min-lr", Reach::kTraining, "", kSchedule},
    {"start-weight-decay", Reach::kTraining, "", kSchedule},
    {"end-weight-decay", Reach::kTraining, "", kSchedule},
    {"weight-decay-incr-style", Reach::kTraining, "constant", kSchedule},
    {"wd-incr-steps", Reach::kTraining, "", kSchedule},
    {"lr-warmup-steps", Reach::kTraining, "0", kSchedule},
    {"lr-decay-steps", Reach::kTraining, "", kSchedule},
    {"wsd-decay-steps", Reach::kTraining, "", kSchedule},
    {"warmup-ratio", Reach::kTraining, "0 0.0", kSchedule},
    {"head-lr-mult", Reach::kTraining, "1 1.0", "all parameters have one rate"},
    {"no-weight-decay-cond-type", Reach::kTraining, "", "use --decay-vectors"},
    {"debug-disable-optimizer", Reach::kTraining, "", "steps are taken"},
    {"apply-wd-to-qk-layernorm", Reach::kTraining, "", "use --decay-vectors"},
    {"rampup-batch-size", Reach::kTraining, "", "the batch has a fixed size"},
    {"step-batch-size-schedule", Reach::kTraining, "", "the batch has a fixed size"},
    {"only-train-params-name-list", Reach::kTraining, "", kAllTrain},
    {"freeze-params-name-list", Reach::kTraining, "", kAllTrain},
    {"freeze-all-layers", Reach::kTraining, "", kAllTrain},
    {"lora-rank", Reach::kTraining, "0", kAllTrain},
    {"enable-mtp-training", Reach::kTraining, "", "there are no heads for further tokens"},
    {"custom-megatron-before-train-step-hook-path", Reach::kTraining, "", kOwnCode},
    {"custom-megatron-before-log-prob-hook-path", Reach::kTraining, "", kOwnCode},
    {"custom-megatron-init-path", Reach::kTraining, "", kOwnCode},
    {"custom-model-provider-path", Reach::kTraining, "", kOwnCode},

    {"rm-type", Reach::kRollout, "", kReward},
    {"rm-url", Reach::kRollout, "", kReward},
    {"custom-rm-path", Reach::kRollout, "", kReward},
    {"group-rm", Reach::kRollout, "", kReward},
    {"reward-key", Reach::kRollout, "", kReward},
    {"rollout-function-path", Reach::kRollout, "", kOwnCode},
    {"custom-generate-function-path", Reach::kRollout, "", kOwnCode},
    {"custom-agent-function-path", Reach::kRollout, "", kOwnCode},
    {"custom-convert-samples-to-train-data-path", Reach::kRollout, "", kOwnCode},
    {"rollout-data-postprocess-path", Reach::kRollout, "", kOwnCode},
    {"data-source-path", Reach::kRollout, "", kOwnCode},
    {"over-sampling-batch-size", Reach::kRollout, "", kSampling},
    {"dynamic-sampling-filter-path", Reach::kRollout, "", kSampling},
    {"buffer-filter-path", Reach::kRollout, "", kSampling},
    {"rollout-sample-filter-path", Reach::kRollout, "", kSampling},
    {"partial-rollout", Reach::kRollout, "", kSampling},
    {"fully-async", Reach::kRollout, "", "rollouts and steps take turns"},
    {"rollout-max-prompt-len", Reach::kRollout, "", "prompts are not left out for their length"},
    {"rollout-max-context-len", Reach::kRollout, "", "use --rollout-max-response-len"},
    {"rollout-stop", Reach::kRollout, "", "use --rollout-stop-token-ids"},
    {"apply-chat-template-kwargs", Reach::kRollout, "{}", "the template has no such settings"},
    {"chat-template-path", Reach::kRollout, "", "the checkpoint's own template is used"},
    {"multimodal-keys", Reach::kRollout, "", "prompts are texts"},
    {"start-rollout-id", Reach::kRollout, "0", "use --resume"},
    {"debug-rollout-only", Reach::kRollout, "", "use --rollout-only"},
    {"debug-train-only", Reach::kRollout, "", "use rlreplay train DUMP"},
    {"load-debug-rollout-data", Reach::kRollout, "", "use rlreplay train DUMP"},
};

bool has_word(std::string_view words, std::string_view word) {
  const std::string padded = " " + std::string(words) + " ";
  return padded.find(" " + std::string(word) + " ") != padded.npos;
}

const Refusal* find_refusal(std::string_view name) {
  const auto matches = [&](const Refusal& refusal) {
    if (!refusal.name.ends_with('*')) return refusal.name == name;
    return name.starts_with(refusal.name.substr(0, refusal.name.size() - 1));
  };
  const auto found = std::ranges::find_if(kRefusals, matches);
  return found == std::end(kRefusals) ? nullptr : found;
}

std::string dashed(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

/// -o and --steps; -1 is a number.
bool is_flag(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && !is_digit(word[1]) && word[1] != '.';
}

/// How many of the words behind a flag are its values.
size_t count_values(std::string_view values, std::span<const std::string> behind) {
  size_t most = behind.size();
  if (values == "?") most = 1;
  if (is_digit(values[0])) most = static_cast<size_t>(values[0] - '0');
  size_t out = 0;
  while (out < std::min(most, behind.size()) && !is_flag(behind[out])) ++out;
  return out;
}

/// The row of a flag; null for one that there is none of.
const Row* find_row(std::string_view name) {
  std::string flag = dashed(name);
  // Miles has SGLang's flags once more for the engines of evaluations, with --no- for each.
  if (flag.starts_with("no-eval-sglang-")) flag = flag.substr(3);
  if (flag.starts_with("eval-sglang-")) flag = flag.substr(5);
  for (const Row& row : kRows) {
    if (!flag.starts_with(row.prefix)) continue;
    const std::string rest = " " + flag.substr(row.prefix.size()) + " ";
    if (row.names.find(rest) != row.names.npos) return &row;
  }
  return nullptr;
}

bool is_honoured(const Refusal& refusal, const LaunchFlag& flag) {
  return !flag.value.empty() && has_word(refusal.honoured, flag.value);
}

}  // namespace

std::optional<std::string_view> launch_flag_values(std::string_view name) {
  const Row* row = find_row(name);
  return row == nullptr ? std::nullopt : std::optional(row->values);
}

bool changes_numbers(const LaunchFlag& flag) {
  const std::string name = dashed(flag.name);
  const Refusal* refusal = find_refusal(name);
  if (refusal != nullptr && is_honoured(*refusal, flag)) return false;
  const Row* row = find_row(name);
  // What evaluations compute is no part of a run.
  const bool evaluates = name.starts_with("eval-") || name.starts_with("no-eval-");
  return row != nullptr && row->what == kNumbers && !evaluates;
}

std::vector<std::string> join_launch_flags(
    const std::vector<std::string>& words,
    const std::function<bool(const std::string& flag)>& is_own) {
  std::vector<std::string> out;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    out.push_back(word);
    if (!word.starts_with("--") || word.find('=') != word.npos) continue;
    const auto values = launch_flag_values(word.substr(2));
    if (!values) continue;
    const bool several = *values == "+" || *values == "*";
    const bool own = is_own(word);
    if (own && !several) continue;
    const size_t count = count_values(*values, std::span(words).subspan(i + 1));
    if (count == 0) continue;
    out.back() += "=" + joined(std::span(words).subspan(i + 1, count), own ? "," : " ");
    i += count;
  }
  return out;
}

std::string refused_launch_flags(std::span<const LaunchFlag> flags, Reach reach,
                                 bool rewards_given) {
  std::string out;
  for (const LaunchFlag& flag : flags) {
    const Refusal* refusal = find_refusal(dashed(flag.name));
    if (refusal == nullptr || refusal->reach > reach) continue;
    if (rewards_given && refusal->reason == kReward) continue;
    if (is_honoured(*refusal, flag)) continue;
    out += (out.empty() ? "--" : "; --") + flag.name +
           (flag.value.empty() ? "" : " " + flag.value) + ": " + std::string(refusal->reason);
  }
  return out;
}

}  // namespace rlreplay::replay
