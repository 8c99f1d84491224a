#pragma once

#include "src/replay/options/options.h"

namespace rlreplay::replay {

/// Before a run, that its weights can be saved at its end (--save).
/// Errors: kUsage where the folder is the checkpoint that the run begins with, or holds something
/// and may not be replaced; kEnvironment where it cannot be made or written to.
void check_save(const RunOptions& options, bool replace);

}  // namespace rlreplay::replay
