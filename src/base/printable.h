#pragma once

#include <string>
#include <string_view>

namespace rlreplay {

/// A text of a file in quotes, for a message: at most 80 bytes, control and non-ASCII bytes as
/// \xHH.
std::string printable(std::string_view text);

}  // namespace rlreplay
