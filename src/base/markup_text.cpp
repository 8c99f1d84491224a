#include "src/base/markup_text.h"

#include "src/base/terminal.h"

namespace rlreplay {

std::string markup_text(std::string_view text) {
  std::string out;
  for (const char c : terminal_text(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace rlreplay
