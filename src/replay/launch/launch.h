#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/process.h"

/// Somebody else's launcher, run so that its run can be repeated and is dumped.
namespace rlreplay::replay {

/// One thing that is asked of a launcher, and what became of it.
struct LaunchSetting {
  bool variable = false;             // of the environment; else a flag
  std::string name;                  // NCCL_ALGO, --seed
  std::optional<std::string> value;  // nothing for a flag without one
  std::string reason;
  /// The user's own, which stays: its text.
  std::optional<std::string> kept;
  std::string kept_in;  // the script that says so; empty for the command and the environment
};

/// A shell script among the command's words, or the text behind a shell's -c: what it says counts
/// as the command does.
struct LaunchScript {
  std::string path;
  std::vector<std::string> words;  // without comments
  bool hands_on = false;           // the arguments that it gets, to what it starts
  /// What is given to variables of the recipe, in order.
  std::vector<std::pair<std::string, std::string>> variables;
};

/// A launcher's command as it will be run, and what becomes of each setting of the recipe.
struct Launch {
  std::string framework;
  std::vector<LaunchSetting> settings;  // in order
  Command command;                      // with what was not the user's already
  std::optional<LaunchScript> script;
  std::vector<std::string> folders;  // where the dumps will be
};

/// The recipe of slime and Miles (docs/wrap.md) for this command, its dumps below `folder` unless
/// it names places of its own. Errors: kUsage for an empty command, and for a script or a text
/// behind -c that does not hand on the flags that it would be given, or whose dumps lie where only
/// the shell knows.
[[nodiscard]] Launch plan_launch(const std::string& framework,
                                 const std::vector<std::string>& command,
                                 const std::string& folder);

/// The variables of the recipe.
[[nodiscard]] std::vector<std::string> recipe_variables();

/// How many values a flag of the recipe takes; nothing for other flags.
[[nodiscard]] std::optional<int> recipe_values(std::string_view flag);

/// A line a setting: "set NCCL_ALGO=Ring: ..." or "kept --seed 7, yours".
[[nodiscard]] std::string describe(const Launch& launch);

/// The command as a shell takes it, variables before it.
[[nodiscard]] std::string command_line(const Launch& launch);

/// What a dump records of it: the settings, the command with only those values that are known to
/// matter and cannot be secrets, and the environment's recorded variables. JSON, an object.
[[nodiscard]] std::string launch_json(const Launch& launch);

}  // namespace rlreplay::replay
