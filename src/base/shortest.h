#pragma once

#include <array>
#include <charconv>
#include <string>

namespace rlreplay {

/// The shortest decimal that reads back as the number.
template <class Number>
std::string shortest(Number value) {
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

/// The same of a binary64 that may hold a binary32: fewer digits say as much then.
inline std::string shortest_of(double value) {
  const auto narrow = static_cast<float>(value);
  return static_cast<double>(narrow) == value ? shortest(narrow) : shortest(value);
}

}  // namespace rlreplay
