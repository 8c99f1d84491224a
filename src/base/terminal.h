#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace rlreplay {

enum class Colour { kRed, kGreen, kYellow };

/// `text` in a colour where the stream is a terminal and NO_COLOR is not set, else as it is.
std::string coloured(std::string_view text, Colour colour, std::FILE* stream);

}  // namespace rlreplay
