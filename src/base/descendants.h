#pragma once

#include <vector>

#include <sys/types.h>

namespace rlreplay {

/// The processes that this one has started, and they in turn, as they are now; those too whose
/// parents have ended, once `adopt_orphans` was called before.
std::vector<pid_t> descendants();

/// Makes this process the parent of descendants whose own has ended.
void adopt_orphans();

/// Sends a signal to all descendants.
void signal_descendants(int signal);

}  // namespace rlreplay
