#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace rlreplay {

/// A number that is the whole text, and fits: decimal, or of the base or std::chars_format `form`.
template <class Number, class... Form>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text, Form... form) {
  Number value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value, form...);
  return read.ec == std::errc() && read.ptr == end ? std::optional(value) : std::nullopt;
}

/// The shortest decimal that reads back as the number; with `form`, the shortest text of that base
/// or std::chars_format.
template <class Number, class... Form>
[[nodiscard]] std::string shortest(Number value, Form... form) {
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, form...).ptr;
  return {text.data(), end};
}

/// `shortest` of a binary64 that may hold a binary32: fewer digits say as much then.
[[nodiscard]] inline std::string shortest_of(double value) {
  const auto narrow = static_cast<float>(value);
  return static_cast<double>(narrow) == value ? shortest(narrow) : shortest(value);
}

inline constexpr std::string_view kHexDigits = "0123456789abcdef";

/// The lowest `digits` digits of a number in hexadecimal.
[[nodiscard]] inline std::string hex(uint64_t bits, int digits) {
  std::string out;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHexDigits[bits >> shift & 15];
  return out;
}

}  // namespace rlreplay
