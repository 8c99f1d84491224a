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
  // Two letters that Unicode has and XML has not.
  for (const char* none : {"\xef\xbf\xbe", "\xef\xbf\xbf"}) {
    for (size_t at = out.find(none); at != out.npos; at = out.find(none, at)) {
      out.replace(at, 3, none[2] == '\xbe' ? "\\ufffe" : "\\uffff");
    }
  }
  return out;
}

}  // namespace rlreplay
