#pragma once

#include <string>

namespace rlreplay::bisect {

/// Removes a folder and all that is in it, also what a build has write-protected. What cannot be
/// removed is said on standard error.
void remove_folder(const std::string& path) noexcept;

}  // namespace rlreplay::bisect
