#include "src/base/terminal.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include <unistd.h>

#include "src/base/number_text.h"
#include "src/base/utf8.h"

namespace rlreplay {

namespace {

/// Whether a terminal is one of mpirun's: it gives its processes one each for what they print, and
/// a pipe for errors, whatever it writes to itself.
bool is_of_mpirun() {
  return std::getenv("OMPI_COMM_WORLD_RANK") != nullptr && ::isatty(STDERR_FILENO) == 0;
}

}  // namespace

bool takes_colours(std::FILE* stream) {
  const char* refused = std::getenv("NO_COLOR");
  if ((refused != nullptr && *refused != '\0') || is_of_mpirun()) return false;
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

namespace {

bool is_plain(char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\t'; }

void append_escape(std::string& out, char kind, uint32_t value, int digits) {
  out += {'\\', kind};
  out += rlreplay::hex(value, digits);
}

/// Whether a character outside of ASCII steers the terminal or the direction of writing.
bool is_control(uint32_t point) {
  return (point >= 0x80 && point <= 0x9F) || point == 0x061C || point == 0x200E ||
         point == 0x200F || (point >= 0x202A && point <= 0x202E) ||
         (point >= 0x2066 && point <= 0x2069);
}

/// Bytes of the character that a byte above 0x7F begins.
size_t length_of(uint8_t lead) { return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; }

uint32_t code_point(std::string_view character) {
  uint32_t point = static_cast<uint8_t>(character[0]) & (0xFFu >> (character.size() + 1));
  for (const char c : character.substr(1)) point = point << 6 | (static_cast<uint8_t>(c) & 0x3F);
  return point;
}

/// Appends the character or broken byte that `text` begins with; returns its bytes.
size_t append_wide(std::string& out, std::string_view text) {
  const std::string_view character = text.substr(0, length_of(static_cast<uint8_t>(text[0])));
  if (!is_utf8(character, Surrogates::kRefused)) {
    append_escape(out, 'x', static_cast<uint8_t>(text[0]), 2);
    return 1;
  }
  const uint32_t point = code_point(character);
  if (is_control(point)) {
    append_escape(out, 'u', point, 4);
  } else {
    out += character;
  }
  return character.size();
}

/// The colour that `text` begins with; `open` where it may be the begin of one.
std::string_view colour_at(std::string_view text, bool& open) {
  for (const std::string_view code : kColourCodes) {
    if (text.starts_with(code)) return code;
    open = open || code.starts_with(text);
  }
  return {};
}

/// Appends `text` as terminal_text; returns how much of it was taken: unless it is the end, the
/// begin of a character or colour stays.
size_t filter(std::string_view text, bool end, bool colours, std::string& out) {
  size_t at = 0;
  while (at < text.size()) {
    const auto* plain_end = std::find_if_not(text.begin() + at, text.end(), is_plain);
    const auto plain = static_cast<size_t>(plain_end - text.begin()) - at;
    out += text.substr(at, plain);
    at += plain;
    if (at == text.size()) break;
    const std::string_view rest = text.substr(at);
    const auto byte = static_cast<uint8_t>(rest[0]);
    if (byte >= 0x80) {
      if (!end && byte >= 0xC2 && byte < 0xF5 && rest.size() < length_of(byte)) break;
      at += append_wide(out, rest);
      continue;
    }
    bool open = false;
    const std::string_view colour = colours ? colour_at(rest, open) : "";
    if (colour.empty() && open && !end) break;
    out += colour;
    if (colour.empty()) append_escape(out, 'u', byte, 4);
    at += std::max<size_t>(colour.size(), 1);
  }
  return at;
}

}  // namespace

std::string terminal_text(std::string_view text) {
  std::string out;
  filter(text, true, false, out);
  return out;
}

TerminalFilter::TerminalFilter(std::ostream& stream, std::FILE* file)
    : stream_(stream), target_(stream.rdbuf()), colours_(takes_colours(file)) {
  stream_.rdbuf(this);
}

TerminalFilter::~TerminalFilter() {
  static_cast<void>(hand_on(true));  // a failed write stays an error of the file
  stream_.rdbuf(target_);
}

bool TerminalFilter::hand_on(bool end) {
  std::string out;
  waiting_.erase(0, filter(waiting_, end, colours_, out));
  const auto size = static_cast<std::streamsize>(out.size());
  return target_->sputn(out.data(), size) == size;
}

std::streamsize TerminalFilter::xsputn(const char* text, std::streamsize size) {
  waiting_.append(text, static_cast<size_t>(size));
  return hand_on(false) ? size : 0;
}

TerminalFilter::int_type TerminalFilter::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char one = traits_type::to_char_type(c);
  return xsputn(&one, 1) == 1 ? c : traits_type::eof();
}

int TerminalFilter::sync() { return target_->pubsync(); }

}  // namespace rlreplay
