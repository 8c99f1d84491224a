#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "format/foreign/bytes.h"
#include "src/base/printable.h"
#include "src/base/utf8.h"

namespace rlreplay::foreign {

using rlreplay::is_utf8;
using rlreplay::Surrogates;

/// Throws kCorrupt.
[[noreturn]] void corrupt(const std::string& message, const std::string& where = {});

/// Whether valid text (surrogates allowed) holds a surrogate.
[[nodiscard]] bool has_surrogates(std::string_view text);

/// The characters U+0000 to U+00FF of `text` as bytes; nothing where another one occurs.
/// `text` must be valid.
[[nodiscard]] std::optional<std::string> utf8_to_latin1(std::string_view text);

/// Python's raw-unicode-escape: Latin-1 bytes with \uXXXX and \UXXXXXXXX. Nothing where an escape
/// is broken.
[[nodiscard]] std::optional<std::string> decode_raw_unicode_escape(std::string_view raw);

/// The content of a quoted string of Python 2 (`'a\n\x00'`). Nothing where it is broken.
[[nodiscard]] std::optional<std::string> decode_quoted(std::string_view quoted);

/// Two lower-case hexadecimal digits a byte.
[[nodiscard]] std::string to_hex(Bytes bytes);

}  // namespace rlreplay::foreign
