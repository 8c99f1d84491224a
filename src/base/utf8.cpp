#include "src/base/utf8.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rlreplay {
namespace {

bool continues(uint8_t byte) { return (byte & 0xC0) == 0x80; }

/// Whether eight bytes are ASCII.
bool all_ascii(const uint8_t* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return (word & 0x8080808080808080) == 0;
}

/// The length of the character at `p`, 0 where it is broken. `end` is behind the text.
size_t character(const uint8_t* p, const uint8_t* end, Surrogates surrogates) {
  const uint8_t lead = *p;
  if (lead < 0x80) return 1;
  const size_t left = static_cast<size_t>(end - p);
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return left >= 2 && continues(p[1]) ? 2 : 0;
  if (lead < 0xF0) {
    if (left < 3 || !continues(p[1]) || !continues(p[2])) return 0;
    if (lead == 0xE0 && p[1] < 0xA0) return 0;
    if (lead == 0xED && p[1] >= 0xA0 && surrogates == Surrogates::kRefused) return 0;
    return 3;
  }
  if (lead > 0xF4 || left < 4 || !continues(p[1]) || !continues(p[2]) || !continues(p[3])) return 0;
  if (lead == 0xF0 && p[1] < 0x90) return 0;
  if (lead == 0xF4 && p[1] >= 0x90) return 0;
  return 4;
}

}  // namespace

bool is_utf8(std::string_view text, Surrogates surrogates) {
  const auto* p = reinterpret_cast<const uint8_t*>(text.data());
  const uint8_t* end = p + text.size();
  while (p < end) {
    if (end - p >= 8 && all_ascii(p)) {
      p += 8;
      continue;
    }
    const size_t length = character(p, end, surrogates);
    if (length == 0) return false;
    p += length;
  }
  return true;
}

}  // namespace rlreplay
