#pragma once

#include <string>

namespace rlreplay {

/// A word of a command as a POSIX shell reads it, quoted only where it must be.
std::string shell_word(const std::string& text);

}  // namespace rlreplay
