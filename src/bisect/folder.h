#pragma once

#include <string>

namespace rlreplay::bisect {

/// A new folder of its own in the system's folder for temporary files (TMPDIR).
/// Errors: kEnvironment.
std::string make_temporary_folder();

/// Removes a folder and all that is in it, also what a build has write-protected. What cannot be
/// removed is said on standard error.
void remove_folder(const std::string& path) noexcept;

}  // namespace rlreplay::bisect
