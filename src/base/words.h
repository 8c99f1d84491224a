#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rlreplay {

/// "a, b, c".
template <class Texts>
[[nodiscard]] std::string joined(const Texts& texts, std::string_view between) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : std::string(between)) + text;
  return out;
}

/// "1 step", "2 steps".
[[nodiscard]] std::string counted(std::integral auto n, std::string_view one) {
  return std::to_string(n) + " " + std::string(one) + (n == 1 ? "" : "s");
}

/// What printf would print.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* pattern, ...);

/// What a misspelt word most probably means: the candidate with the fewest letters to change, where
/// those are no more than a third of the word.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word,
                                                 std::span<const std::string> candidates);

/// How wide texts for people are.
inline constexpr size_t kLineWidth = 80;

/// The text with line feeds in place of spaces, so that no line is longer than `width` bytes where
/// it has a space; `indent` spaces begin each line but the first, which the caller began with as
/// many columns.
[[nodiscard]] std::string wrapped(std::string_view text, size_t width, size_t indent = 0);

}  // namespace rlreplay
