#include "src/base/printable.h"

#include "src/base/number_text.h"

namespace rlreplay {

std::string printable(std::string_view text) {
  constexpr size_t kLimit = 80;
  std::string out = "'";
  for (const char c : text.substr(0, kLimit)) {
    const bool plain = c >= 0x20 && c < 0x7F && c != '\'' && c != '\\';
    out += plain ? std::string(1, c) : "\\x" + hex(static_cast<uint8_t>(c), 2);
  }
  return out + (text.size() > kLimit ? "...'" : "'");
}

std::string shortened(std::string text) {
  constexpr size_t kMost = 1000, kHead = 600, kTail = 300;
  if (text.size() <= kMost) return text;
  const auto is_inside = [&](size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
  };
  size_t head = kHead, tail = text.size() - kTail;
  while (head > 0 && is_inside(head)) --head;
  while (tail < text.size() && is_inside(tail)) ++tail;
  return text.substr(0, head) + " ... (" + std::to_string(tail - head) + " bytes left out) ... " +
         text.substr(tail);
}

}  // namespace rlreplay
