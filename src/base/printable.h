#pragma once

#include <string>
#include <string_view>

namespace rlreplay {

/// A text of a file in quotes, for a message: at most 80 bytes, control and non-ASCII bytes as
/// \xHH.
std::string printable(std::string_view text);

/// A message that may repeat what a file says: at most 1,000 bytes, without its middle where it is
/// longer.
std::string shortened(std::string text);

}  // namespace rlreplay
