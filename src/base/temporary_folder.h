#pragma once

#include <string>

namespace rlreplay {

/// A new folder of its own in the system's folder for temporary files (TMPDIR), PREFIX-XXXXXX. Its
/// path has no symbolic links: git and a build's own pwd say the same.
/// Errors: kEnvironment.
std::string make_temporary_folder(const std::string& prefix);

}  // namespace rlreplay
