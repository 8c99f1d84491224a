#include "src/base/terminal.h"

#include <cstdlib>

#include <unistd.h>

namespace rlreplay {
namespace {

bool takes_colours(std::FILE* stream) {
  const char* refused = std::getenv("NO_COLOR");
  if (refused != nullptr && *refused != '\0') return false;
  const char* terminal = std::getenv("TERM");
  return ::isatty(::fileno(stream)) != 0 && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

const char* code_of(Colour colour) {
  switch (colour) {
    case Colour::kRed:
      return "\033[31m";
    case Colour::kGreen:
      return "\033[32m";
    case Colour::kYellow:
      return "\033[33m";
  }
  return "";
}

}  // namespace

std::string coloured(std::string_view text, Colour colour, std::FILE* stream) {
  if (!takes_colours(stream)) return std::string(text);
  return code_of(colour) + std::string(text) + "\033[0m";
}

}  // namespace rlreplay
