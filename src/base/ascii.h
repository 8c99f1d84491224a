#pragma once

#include <algorithm>
#include <string>
#include <string_view>

/// Kinds of characters, of ASCII alone and whatever the locale is.
namespace rlreplay {

[[nodiscard]] constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
[[nodiscard]] constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// A letter, a digit or `_`.
[[nodiscard]] constexpr bool is_word_character(char c) {
  return is_letter(c) || is_digit(c) || c == '_';
}

/// Whether a text is digits and nothing else; an empty one is not.
[[nodiscard]] constexpr bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_digit);
}

[[nodiscard]] inline std::string upper_case(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

[[nodiscard]] inline std::string lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

}  // namespace rlreplay
