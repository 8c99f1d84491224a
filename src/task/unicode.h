#pragma once

#include <string>
#include <string_view>

namespace rlreplay {

/// Well-formed text in normalization form C, in time linear in its length (but for the sorting of
/// long runs of combining marks). Source: Unicode Standard Annex 15.
[[nodiscard]] std::string normalize_nfc(std::string_view text);

/// Unicode's White_Space.
[[nodiscard]] bool is_space(char32_t code_point);

/// A character of a word as regular expressions mean it: letters, marks, decimal digits, connector
/// punctuation, join controls. Source: Unicode Technical Standard 18, Annex C, `\w`.
[[nodiscard]] bool is_word_character(char32_t code_point);

/// The version of utf8proc as it is loaded.
[[nodiscard]] std::string utf8proc_library_version();

}  // namespace rlreplay
