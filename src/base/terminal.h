#pragma once

#include <array>
#include <cstdio>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace rlreplay {

enum class Colour { kRed, kGreen, kYellow };

/// What turns each colour on, in their order, and then what turns it off.
inline constexpr std::array<std::string_view, 4> kColourCodes = {"\033[31m", "\033[32m", "\033[33m",
                                                                 "\033[0m"};

/// Whether the stream is a terminal that shows colours and NO_COLOR is not set.
[[nodiscard]] bool takes_colours(std::FILE* stream);

/// `text` in a colour where the stream takes them, else as it is.
[[nodiscard]] std::string coloured(std::string_view text, Colour colour, std::FILE* stream);

/// Text that does nothing to a terminal but show itself: control characters other than line feed
/// and tab, DEL, C1 controls and the characters that turn the direction of writing become \uXXXX,
/// which means the same inside of a JSON string; bytes that are not UTF-8 become \xHH.
[[nodiscard]] std::string terminal_text(std::string_view text);

/// While it lives, what is written to a stream goes through terminal_text: no text of a dump, a
/// commit or a file can reach a terminal otherwise. The colours of `coloured` pass.
class TerminalFilter : private std::streambuf {
 public:
  /// `file`: what the stream writes to.
  TerminalFilter(std::ostream& stream, std::FILE* file);
  ~TerminalFilter() override;
  TerminalFilter(const TerminalFilter&) = delete;
  TerminalFilter& operator=(const TerminalFilter&) = delete;

 private:
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int_type overflow(int_type c) override;
  int sync() override;
  [[nodiscard]] bool hand_on(bool end);

  std::ostream& stream_;
  std::streambuf* target_;
  bool colours_;
  std::string waiting_;  // the begin of a character or a colour
};

}  // namespace rlreplay
