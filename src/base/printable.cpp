#include "src/base/printable.h"

#include <algorithm>

#include "src/base/number_text.h"

namespace rlreplay {
namespace {

/// Cut between characters of UTF-8.
std::string without_middle(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  const auto is_inside = [&](size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
  };
  size_t head = most / 2, tail = text.size() - most / 4;
  while (head > 0 && is_inside(head)) --head;
  while (tail < text.size() && is_inside(tail)) ++tail;
  return text.substr(0, head) + "... (" + std::to_string(tail - head) + " bytes left out) ..." +
         text.substr(tail);
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr size_t kLimit = 80;
  std::string out = "'";
  for (const char c : text.substr(0, kLimit)) {
    const bool plain = c >= 0x20 && c < 0x7F && c != '\'' && c != '\\';
    out += plain ? std::string(1, c) : "\\x" + hex(static_cast<uint8_t>(c), 2);
  }
  return out + (text.size() > kLimit ? "...'" : "'");
}

std::string shortened(const std::string& text) {
  constexpr size_t kWord = 300, kText = 16'000;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n", at), text.size());
    out += without_middle(text.substr(at, end - at), kWord);
    if (end < text.size()) out += text[end];
    at = end + 1;
  }
  return without_middle(out, kText);
}

}  // namespace rlreplay
