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

}  // namespace rlreplay
