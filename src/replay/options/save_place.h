#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/base/staged_folder.h"
#include "src/replay/options/options.h"

namespace rlreplay::replay {

/// Where a run's weights go at its end (--save; nowhere without it): a checkpoint that is built
/// beside its name, which no other process does meanwhile, and takes the name when it is whole.
class SavePlace {
 public:
  /// Takes the place before the run. `otherwise`: what can be done with a folder that holds
  /// something, beside choosing another.
  /// Errors: kUsage where the folder is the checkpoint that the run begins with, lies within a
  /// dump, holds something and may not be replaced, or files that are none of a checkpoint's, or
  /// another process saves there; kEnvironment where it cannot be made or written to.
  SavePlace(const RunOptions& options, bool replace,
            const std::string& otherwise = "replace what is in it with --force");

  /// `write` writes the checkpoint into the folder that it is given.
  /// Errors: its own; those of StagedFolder::take_name.
  void save(const std::function<void(const std::string& folder)>& write);

 private:
  std::string path_;
  std::unique_ptr<StagedFolder> staged_;
};

}  // namespace rlreplay::replay
