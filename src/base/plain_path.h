#pragma once

#include <string>

namespace rlreplay {

/// The absolute path without links and a slash at its end, be anything there or not.
/// Errors: kEnvironment where it cannot be followed: a link that leads to itself.
std::string plain_path(const std::string& path);

}  // namespace rlreplay
