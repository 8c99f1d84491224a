#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rlreplay {

/// How wide texts for people are.
inline constexpr size_t kLineWidth = 80;

/// The text with line feeds in place of spaces, so that no line is longer than `width` bytes where
/// it has a space; `indent` spaces begin each line but the first, which the caller began with as
/// many columns.
std::string wrapped(std::string_view text, size_t width, size_t indent = 0);

}  // namespace rlreplay
