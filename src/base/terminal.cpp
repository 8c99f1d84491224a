#include "src/base/terminal.h"

#include <cstdlib>

#include <unistd.h>

namespace rlreplay {

bool takes_colours(std::FILE* stream) {
  const char* refused = std::getenv("NO_COLOR");
  if (refused != nullptr && *refused != '\0') return false;
  const char* terminal = std::getenv("TERM");
  return ::isatty(::fileno(stream)) != 0 && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

std::string coloured(std::string_view text, Colour colour, std::FILE* stream) {
  if (!takes_colours(stream)) return std::string(text);
  return std::string(kColourCodes[static_cast<size_t>(colour)])
      .append(text)
      .append(kColourCodes.back());
}

}  // namespace rlreplay
