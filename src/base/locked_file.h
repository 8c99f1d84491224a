#pragma once

#include <string>

#include "src/base/descriptor.h"

namespace rlreplay {

/// Opens `name` in a folder and takes its exclusive lock, which lasts until the descriptor is
/// closed. The lock is that of the file which has the name then: one that was removed or replaced
/// between opening and locking is opened anew. `flags` as of open; links are not followed.
/// Returns nothing (an empty descriptor) where another process holds the lock.
/// Errors: kEnvironment; `where` names the file.
Descriptor open_locked(int folder, const std::string& name, int flags, const std::string& where);

}  // namespace rlreplay
