#pragma once

#include <cstdio>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace rlreplay {

/// Text that does nothing to a terminal but show itself: control characters other than line feed
/// and tab, DEL, C1 controls and the characters that turn the direction of writing become \uXXXX,
/// which means the same inside of a JSON string; bytes that are not UTF-8 become \xHH.
std::string terminal_text(std::string_view text);

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
  bool hand_on(bool end);

  std::ostream& stream_;
  std::streambuf* target_;
  bool colours_;
  std::string waiting_;  // the begin of a character or a colour
};

}  // namespace rlreplay
