#pragma once

#include <functional>

#include "src/engine/group.h"

namespace rlreplay::engine {

/// Runs `work` once for every rank of a layout, each on a thread of its own in this process, and
/// returns when all have ended. Ranks pass each other's memory by the groups that they are given.
/// Errors: where ranks fail, the error of the first, which it names together with what the others
/// waited for; kInternal where ranks wait for each other and none can go on; kEnvironment where the
/// system gives no further thread.
void run_thread_ranks(const Layout& layout, const std::function<void(const Ranks&)>& work);

}  // namespace rlreplay::engine
