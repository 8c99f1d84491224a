#pragma once

#include <string>

#include "src/replay/options/options.h"

namespace rlreplay::replay {

/// Before a run, that its weights can be saved at its end (--save).
/// `otherwise`: what can be done with a folder that holds something, beside choosing another.
/// Errors: kUsage where the folder is the checkpoint that the run begins with, or holds something
/// and may not be replaced; kEnvironment where it cannot be made or written to.
void check_save(const RunOptions& options, bool replace,
                const std::string& otherwise = "replace what is in it with --force");

}  // namespace rlreplay::replay
