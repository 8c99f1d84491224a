#pragma once

#include <string>
#include <string_view>
#include <vector>

/// A POSIX shell's text, read as far as its words go.
namespace rlreplay {

/// A part of such a text. All parts in order are the text again.
struct ShellPart {
  enum class Kind {
    kWord,      // with its quotes and backslashes; substitutions in it as they are
    kBlank,     // also a backslash at the end of a line
    kOperator,  // a run of ; & | < >, or one of ( ) ` and the end of a line
    kComment,   // from its # to the end of the line
    kHere,      // the lines of a here-document, its last one included
  };
  Kind kind;
  std::string_view text;

  [[nodiscard]] bool is_redirection() const;
};

/// A quote that nothing closes reaches to the end. The parts are views of `text`.
[[nodiscard]] std::vector<ShellPart> shell_parts(std::string_view text);

/// The size of the word at the begin of a text with all of its substitutions, `$(...)`, `${...}`
/// and `` `...` ``, whatever stands in them, and with the list that an array's `NAME=(...)` gets.
[[nodiscard]] size_t whole_word_size(std::string_view text);

/// A word as a shell would take it: without the quotes and backslashes that only quote, and with
/// the characters that `$'...'` names.
[[nodiscard]] std::string unquoted(std::string_view word);

/// A word of a command as a POSIX shell reads it, quoted only where it must be.
[[nodiscard]] std::string shell_word(const std::string& text);

}  // namespace rlreplay
