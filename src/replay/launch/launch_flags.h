#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Launch scripts of slime and Miles, taken as they are: which of their flags there are, how many
/// words each takes, and which cannot be left out.
namespace rlreplay::replay {

/// How many values argparse takes for a flag of slime, Miles, Megatron-LM or SGLang (named without
/// dashes): "0", "1", "2", "3", "?" none or one, "+" at least one, "*" any. Nothing for a flag that
/// none of them has.
[[nodiscard]] std::optional<std::string_view> launch_flag_values(std::string_view name);

/// The words of a command line with each such flag and its values as one word, "--flag=value
/// value": only so can values be told from arguments. A flag that `is_own` has its values joined
/// only where it takes several, by commas.
[[nodiscard]] std::vector<std::string> join_launch_flags(
    const std::vector<std::string>& words,
    const std::function<bool(const std::string& flag)>& is_own);

/// What a verb does anew, and so which flags it would have to follow; each contains those before.
enum class Reach { kObjective, kTraining, kRollout };

/// A flag of a launch script and its value; several are one text, empty: none.
struct LaunchFlag {
  std::string name;  // without dashes
  std::string value;
};

/// Sentences on flags that change numbers and that nothing here follows, each with its reason;
/// empty where there are none. `rewards_given`: the judge of responses was named in our own words.
[[nodiscard]] std::string refused_launch_flags(std::span<const LaunchFlag> flags, Reach reach,
                                               bool rewards_given);

/// Whether a flag says what the launcher's run computes (precision, architecture, kernels, where
/// its weights and samples come from) and nothing here follows it: a replay of that run judges what
/// came of it.
[[nodiscard]] bool changes_numbers(const LaunchFlag& flag);

}  // namespace rlreplay::replay
