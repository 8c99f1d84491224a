#pragma once

#include <cerrno>
#include <string>

#include "src/base/error.h"

namespace rlreplay {

/// "WHAT: REASON", kEnvironment: a call of the system that failed, with the system's own words for
/// `reason`, which is what the call has just left in errno unless it is given.
[[nodiscard]] Error environment_error(const std::string& what, std::string where = {},
                                      int reason = errno);

}  // namespace rlreplay
