#pragma once

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

namespace rlreplay {

enum class Colour { kRed, kGreen, kYellow };

/// What turns each colour on, in their order, and then what turns it off.
inline constexpr std::array<std::string_view, 4> kColourCodes = {"\033[31m", "\033[32m", "\033[33m",
                                                                 "\033[0m"};

/// Whether the stream is a terminal that shows colours and NO_COLOR is not set.
bool takes_colours(std::FILE* stream);

/// `text` in a colour where the stream takes them, else as it is.
std::string coloured(std::string_view text, Colour colour, std::FILE* stream);

}  // namespace rlreplay
