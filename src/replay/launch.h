#pragma once

#include <optional>
#include <string>
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
};

struct Launch {
  std::string framework;
  std::vector<LaunchSetting> settings;  // in order
  Command command;                      // with what was not the user's already
  std::vector<std::string> folders;     // where the dumps will be
};

/// The recipe of slime and Miles (docs/wrap.md) for this command, its dumps below `folder` unless
/// it names places of its own. Errors: kUsage for an empty command.
Launch plan_launch(const std::string& framework, const std::vector<std::string>& command,
                   const std::string& folder);

/// A line a setting: "set NCCL_ALGO=Ring: ..." or "kept --seed 7, yours".
std::string describe(const Launch& launch);

/// What a dump records of it: the settings, the command with only those values that are known to
/// matter and cannot be secrets, and the environment's recorded variables. JSON, an object.
std::string launch_json(const Launch& launch);

}  // namespace rlreplay::replay
