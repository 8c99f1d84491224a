#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rlreplay {

/// Whether surrogates, encoded one by one in three bytes as Python's `surrogatepass` does, count
/// as text.
enum class Surrogates { kRefused, kAllowed };

/// The first ill-formed or cut sequence of a text: where it begins and how many bytes are replaced
/// by one U+FFFD (Unicode's maximal subparts).
struct Utf8Fault {
  size_t offset = 0;
  size_t length = 0;        // 0: the text is well-formed
  bool incomplete = false;  // the text ends inside a sequence that more bytes could complete
};

/// The first fault of a text; its length is 0 where there is none.
[[nodiscard]] Utf8Fault find_utf8_fault(std::string_view bytes,
                                        Surrogates surrogates = Surrogates::kRefused);
[[nodiscard]] bool is_utf8(std::string_view text, Surrogates surrogates);

/// Bytes as text, each ill-formed part replaced by U+FFFD.
[[nodiscard]] std::string utf8_lossy(std::string_view bytes);

/// The code point that begins at `offset` of well-formed text; `offset` moves behind it.
[[nodiscard]] char32_t next_code_point(std::string_view text, size_t& offset);

/// A surrogate takes three bytes.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace rlreplay
