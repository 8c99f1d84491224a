#include "src/base/utf8.h"

#include <cstdint>
#include <cstring>

namespace rlreplay {
namespace {

struct Lead {
  size_t length;      // bytes of the sequence, 0 where no sequence begins
  uint8_t low, high;  // what the second byte may be: no overlong forms, surrogates, or planes > 16
};

Lead lead_of(uint8_t byte, Surrogates surrogates) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed && surrogates == Surrogates::kRefused) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

/// Whether eight bytes are ASCII.
bool all_ascii(const char* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return (word & 0x8080808080808080) == 0;
}

}  // namespace

Utf8Fault find_utf8_fault(std::string_view bytes, Surrogates surrogates) {
  size_t i = 0;
  while (i < bytes.size()) {
    if (bytes.size() - i >= 8 && all_ascii(bytes.data() + i)) {
      i += 8;
      continue;
    }
    const Lead lead = lead_of(static_cast<uint8_t>(bytes[i]), surrogates);
    if (lead.length == 0) return {i, 1, false};
    for (size_t k = 1; k < lead.length; ++k) {
      if (i + k == bytes.size()) return {i, k, true};
      const auto byte = static_cast<uint8_t>(bytes[i + k]);
      const bool fits = k == 1 ? byte >= lead.low && byte <= lead.high : (byte & 0xc0) == 0x80;
      if (!fits) return {i, k, false};
    }
    i += lead.length;
  }
  return {};
}

bool is_utf8(std::string_view text, Surrogates surrogates) {
  return find_utf8_fault(text, surrogates).length == 0;
}

std::string utf8_lossy(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (;;) {
    const Utf8Fault fault = find_utf8_fault(bytes);
    if (fault.length == 0) return text.append(bytes);
    text.append(bytes.substr(0, fault.offset)).append("\xef\xbf\xbd");
    bytes.remove_prefix(fault.offset + fault.length);
  }
}

char32_t next_code_point(std::string_view text, size_t& offset) {
  const auto first = static_cast<uint8_t>(text[offset++]);
  if (first < 0x80) return first;
  const int more = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
  char32_t code = first & (0x3f >> more);
  for (int k = 0; k < more; ++k) code = code << 6 | (static_cast<uint8_t>(text[offset++]) & 0x3f);
  return code;
}

void append_utf8(std::string& text, char32_t code) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xe0 | code >> 12);
    } else {
      put(0xf0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3f));
    }
    put(0x80 | (code >> 6 & 0x3f));
  }
  put(0x80 | (code & 0x3f));
}

}  // namespace rlreplay
