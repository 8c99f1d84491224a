#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rlreplay {

/// Byte-level vocabularies write each byte as one printable character: the printable bytes of
/// Latin-1 as themselves, the others as U+0100 and on. Source: GPT-2, src/encoder.py,
/// bytes_to_unicode.

/// The bytes that a vocabulary entry stands for; nothing when a character is not in the table.
[[nodiscard]] std::optional<std::string> bytes_of_symbols(std::string_view symbols);

}  // namespace rlreplay
