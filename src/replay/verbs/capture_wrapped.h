#pragma once

#include <string>
#include <vector>

namespace rlreplay::replay {

/// `rlreplay capture --wrap`.
struct WrapArguments {
  std::string framework;
  std::vector<std::string> command;
  std::string output;
  bool force = false;
  bool json = false;
  bool dry_run = false;  // say what would be run
};

/// Shows what is set, runs the command and imports what it wrote.
/// Errors: kUsage where dumps of an earlier run lie in the way; kInterrupted; kEnvironment where
/// the command fails; kIncomplete where it wrote no dump; those of import_dump.
[[nodiscard]] int capture_wrapped(const WrapArguments& arguments);

}  // namespace rlreplay::replay
