#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace rlreplay {

/// A decimal number that is the whole text, and fits.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  return read.ec == std::errc() && read.ptr == end ? std::optional(value) : std::nullopt;
}

}  // namespace rlreplay
