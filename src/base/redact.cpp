#include "src/base/redact.h"

#include <algorithm>
#include <cctype>

namespace rlreplay {
namespace {

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The characters of NAME in NAME=..., 0 where the word is no assignment.
size_t assigned_name(std::string_view word) {
  const auto* end = std::find_if_not(word.begin(), word.end(), is_name);
  const auto size = static_cast<size_t>(end - word.begin());
  const bool begins = size > 0 && std::isdigit(static_cast<unsigned char>(word[0])) == 0;
  return begins && size < word.size() && word[size] == '=' ? size : 0;
}

bool names_secret(std::string_view option) {
  std::string name(option);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::string_view kWords[] = {"key", "token", "secret", "passw", "credential", "auth"};
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](std::string_view word) { return name.find(word) != name.npos; });
}

/// A word of a shell's text with its quotes: it ends at white space and at what ends a command.
std::string_view shell_piece(std::string_view text) {
  char quote = 0;
  size_t i = 0;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '\\') {
      ++i;
    } else if (std::string_view(" \t\n;|&()<>`").find(c) != std::string_view::npos) {
      break;
    }
  }
  return text.substr(0, std::min(i, text.size()));
}

/// A word of a shell's text. `hide`: the word before asks for a secret; becomes whether this one
/// does.
std::string redacted_piece(std::string_view piece, bool& hide) {
  const bool quoted = piece.size() > 1 && (piece[0] == '\'' || piece[0] == '"') &&
                      piece.find(piece[0], 1) == piece.size() - 1;
  const bool option = piece.starts_with('-');
  const size_t equals = piece.find('=');
  if (hide && !option) {
    hide = false;
    return std::string(kHidden);
  }
  hide = option && names_secret(piece) && equals == piece.npos;
  if (option && names_secret(piece.substr(0, equals)) && equals != piece.npos) {
    return std::string(piece.substr(0, equals + 1)).append(kHidden);
  }
  if (!quoted) return redacted_word(piece);
  const std::string_view body = piece.substr(1, piece.size() - 2);
  const std::string_view header = body.substr(0, std::min(body.find(": "), body.size()));
  if (header.size() < body.size() && header.find(' ') == header.npos && names_secret(header)) {
    return std::string(piece.substr(0, header.size() + 3)).append(kHidden) + piece[0];
  }
  return piece[0] + redacted_command(body) + piece[0];
}

}  // namespace

// A key may hold slashes: all up to the last @ belongs to it.
std::string redacted_address(std::string_view word) {
  const size_t scheme = word.find("://");
  const size_t colon = word.find(':');
  const size_t begin = scheme == word.npos ? 0 : scheme + 3;
  std::string out(word.substr(0, begin));
  std::string_view rest = word.substr(begin);
  const size_t at = rest.rfind('@');
  if (at != rest.npos && (begin > 0 || colon < at)) {
    out += kHidden;
    rest.remove_prefix(at);
  }
  const size_t query = begin > 0 ? rest.find_first_of("?#") : rest.npos;
  if (query == rest.npos) return out.append(rest);
  return out.append(rest.substr(0, query + 1)).append(kHidden);
}

std::string redacted_word(std::string_view word) {
  const size_t name = assigned_name(word);
  if (name > 0) return std::string(word.substr(0, name + 1)).append(kHidden);
  return redacted_address(word);
}

std::string redacted_command(std::string_view command) {
  std::string out;
  bool hide = false;
  while (!command.empty()) {
    const std::string_view piece = shell_piece(command);
    if (piece.empty()) {
      out += command[0];
      command.remove_prefix(1);
    } else {
      out += redacted_piece(piece, hide);
      command.remove_prefix(piece.size());
    }
  }
  return out;
}

}  // namespace rlreplay
