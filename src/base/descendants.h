#pragma once

#include <vector>

#include <sys/types.h>

namespace rlreplay {

/// Makes this process the parent of descendants whose own has ended, from now on. Returns whether
/// it can be.
[[nodiscard]] bool adopt_orphans();

/// The processes that this one has started, and they in turn, as they are now, none twice; those
/// too whose parents have ended, once `adopt_orphans` was called before. No zombies.
[[nodiscard]] std::vector<pid_t> descendants();

}  // namespace rlreplay
