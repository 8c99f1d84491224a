#include "src/base/wrap.h"

namespace rlreplay {

std::string wrapped(std::string_view text, size_t width, size_t indent) {
  std::string out;
  size_t column = indent;
  while (true) {
    const size_t end = text.find(' ');
    const std::string_view word = text.substr(0, end);
    if (!out.empty() && column + 1 + word.size() > width) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (!out.empty()) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    if (end == text.npos) return out;
    text.remove_prefix(end + 1);
  }
}

}  // namespace rlreplay
