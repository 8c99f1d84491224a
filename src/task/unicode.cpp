#include "src/task/unicode.h"

#include <algorithm>
#include <array>
#include <vector>

#include <utf8proc.h>

#include "src/base/error.h"
#include "src/base/utf8.h"

namespace rlreplay {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

int combining_class(int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

/// Full canonical decomposition, not yet in canonical order.
std::vector<int32_t> decompose(std::string_view text) {
  std::vector<int32_t> out;
  out.reserve(text.size());
  std::array<int32_t, 16> part;
  for (size_t i = 0; i < text.size();) {
    const auto code = static_cast<int32_t>(next_code_point(text, i));
    int boundary = 0;
    const auto length =
        utf8proc_decompose_char(code, part.data(), part.size(), UTF8PROC_DECOMPOSE, &boundary);
    check(length >= 0 && static_cast<size_t>(length) <= part.size(), "a decomposition is too long");
    out.insert(out.end(), part.begin(), part.begin() + length);
  }
  return out;
}

/// utf8proc_map would sort by insertion, in quadratic time.
void order_marks(std::vector<int32_t>& text) {
  for (auto run = text.begin(); run != text.end();) {
    if (combining_class(*run) == 0) {
      ++run;
      continue;
    }
    const auto end = std::find_if(run, text.end(), [](auto c) { return combining_class(c) == 0; });
    std::stable_sort(run, end,
                     [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    run = end;
  }
}

}  // namespace

std::string normalize_nfc(std::string_view text) {
  if (is_ascii(text)) return std::string(text);
  std::vector<int32_t> codes = decompose(text);
  order_marks(codes);
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const auto length =
      utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()), options);
  check(length >= 0, "composing characters failed");
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < length; ++i) {
    append_utf8(out, static_cast<char32_t>(codes[static_cast<size_t>(i)]));
  }
  return out;
}

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

bool is_word_character(char32_t c) {
  const auto between = [c](char32_t low, char32_t high) { return c >= low && c <= high; };
  // Alphabetic symbols: circled and squared letters.
  if (between(0x24b6, 0x24e9) || between(0x1f130, 0x1f149) || between(0x1f150, 0x1f169) ||
      between(0x1f170, 0x1f189) || between(0x200c, 0x200d)) {
    return true;
  }
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

std::string utf8proc_library_version() { return utf8proc_version(); }

}  // namespace rlreplay
