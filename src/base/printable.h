#pragma once

#include <string>
#include <string_view>

namespace rlreplay {

/// A text of a file in quotes, for a message: at most 80 bytes, of which control and non-ASCII
/// bytes are written \xHH.
[[nodiscard]] std::string printable(std::string_view text);

/// A message that may repeat what a file says: words above 300 bytes, and the whole above 16,000,
/// lose their middle.
[[nodiscard]] std::string shortened(const std::string& text);

}  // namespace rlreplay
