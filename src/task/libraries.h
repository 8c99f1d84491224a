#pragma once

#include <string>

namespace rlreplay {

/// The versions of the libraries that tokenizing relies on, as they are loaded.
std::string pcre2_version();
std::string utf8proc_library_version();

}  // namespace rlreplay
