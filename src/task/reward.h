#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlreplay {

/// One response to be judged. The views must outlive the call.
struct RewardQuery {
  std::string_view prompt;
  std::string_view response;
  std::optional<std::string_view> label;
  std::string_view where;  // of the prompt: path:line
};

/// Which reward judges, and by which command; the kinds are said at make_reward.
struct RewardOptions {
  enum class Kind { kExact, kGsm8k, kCommand };
  Kind kind = Kind::kExact;
  std::string command;                            // for kCommand
  std::chrono::milliseconds time_limit{600'000};  // of one batch, for kCommand
};

/// Errors: kUsage for a name that is none of exact, gsm8k, command.
[[nodiscard]] RewardOptions::Kind reward_kind(std::string_view name);

/// Judges responses. A batch is judged as a whole: an error loses nothing but the batch's rewards.
class Reward {
 public:
  virtual ~Reward() = default;

  /// A finite number for each query, in their order.
  /// Errors: kCorrupt when a query lacks the label that the reward needs, or a command answers
  /// nonsense; kEnvironment when a command dies or exceeds its time.
  virtual std::vector<double> score(std::span<const RewardQuery> queries) const = 0;

  /// Whether a program of the user judges.
  [[nodiscard]] virtual bool runs_command() const { return false; }
};

/// exact: 1 when response and label are equal but for white space around them, else 0.
/// gsm8k: 1 when the final numbers of response and label are equal, else 0.
/// command: what a program of the user answers, see CommandReward.
/// Errors: kUsage when kCommand comes without a command.
[[nodiscard]] std::unique_ptr<Reward> make_reward(const RewardOptions& options);

}  // namespace rlreplay
