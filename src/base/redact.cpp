#include "src/base/redact.h"

#include <algorithm>

#include "src/base/ascii.h"
#include "src/base/hash.h"
#include "src/base/shell.h"

namespace rlreplay {
namespace {

constexpr size_t kMarkDigits = 4;

/// How many characters stand before the value of NAME=..., NAME[...]=... or NAME+=...; 0 where the
/// word is no assignment.
size_t assigned_name(std::string_view word) {
  const auto* end = std::find_if_not(word.begin(), word.end(), is_word_character);
  auto size = static_cast<size_t>(end - word.begin());
  if (size == 0 || is_digit(word[0])) return 0;
  if (word.substr(size).starts_with('['))
    size = std::min(word.find(']', size), word.size() - 1) + 1;
  if (word.substr(size).starts_with('+')) ++size;
  return word.substr(size).starts_with('=') ? size + 1 : 0;
}

bool names_secret(std::string_view option) {
  const std::string name = lower_case(std::string(option));
  constexpr std::string_view kWords[] = {"key",        "token", "secret", "pass",
                                         "credential", "auth",  "bearer", "cookie"};
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](std::string_view word) { return name.find(word) != name.npos; });
}

bool is_option(std::string_view text) {
  return text.starts_with('-') && std::ranges::all_of(text, [](char c) {
           return is_word_character(c) || c == '-' || c == '.';
         });
}

/// An option whose value is user:password.
bool names_account(std::string_view option) {
  constexpr std::string_view kOptions[] = {"-u", "-U", "--user", "--proxy-user"};
  return std::ranges::find(kOptions, option) != std::end(kOptions);
}

/// `-uuser:password`, `--user=user:password`.
bool holds_account(std::string_view word) {
  const bool one_letter = word.starts_with("-u") || word.starts_with("-U");
  const bool named = names_account(word.substr(0, word.find('=')));
  return (one_letter || named) && word.find(':') != word.npos;
}

/// The size of `Authorization:` or `{"api_key":` and all before it, of the first such name of a
/// secret; 0 where there is none.
size_t secret_key(std::string_view text) {
  for (size_t at = text.find(':'); at != text.npos; at = text.find(':', at + 1)) {
    std::string_view name = text.substr(0, at);
    while (name.ends_with('"') || name.ends_with('\'')) name.remove_suffix(1);
    size_t begin = name.size();
    while (begin > 0 && (is_word_character(name[begin - 1]) || name[begin - 1] == '-')) --begin;
    if (names_secret(name.substr(begin))) return at + 1;
  }
  return 0;
}

/// Goes through a command's text, part by part.
class Redactor {
 public:
  std::string text(std::string_view command) {
    std::string out;
    const char* hidden_to = command.data();
    for (const ShellPart& part : shell_parts(command)) {
      if (part.text.data() < hidden_to) continue;
      const std::string_view rest =
          command.substr(static_cast<size_t>(part.text.data() - command.data()));
      const bool substitution = part.text == "`" && next_is_secret_;
      if (part.kind == ShellPart::Kind::kWord || substitution) {
        const std::string_view whole = rest.substr(0, whole_word_size(rest));
        if (hides_whole(part.text, whole)) hidden_to = whole.data() + whole.size();
        out += word(part.text, whole);
      } else if (part.kind == ShellPart::Kind::kComment) {
        out.append("#").append(kHidden);
      } else if (part.kind == ShellPart::Kind::kHere) {
        out.append(kHidden).append("\n");
      } else {
        next_is_secret_ = next_is_secret_ || part.text.ends_with("<<<");
        out += part.text;
      }
      if (rest_is_secret_) return out.append(" ").append(kHidden);
    }
    return out;
  }

 private:
  /// Whether nothing of a word can be shown: what -u takes, or a word with quotes within quotes.
  bool is_unreadable(std::string_view quoted, std::string_view whole) const {
    const bool account = next_is_account_ && whole.find_first_of(":$`") != whole.npos;
    return account || (whole.size() > quoted.size() && quoted.find('"') != quoted.npos);
  }

  /// Whether what is hidden of a word reaches into its substitutions, or behind them.
  bool hides_whole(std::string_view quoted, std::string_view whole) const {
    const std::string plain = unquoted(quoted);
    const size_t equals = plain.starts_with('-') ? plain.find('=') : plain.npos;
    return next_is_secret_ || is_unreadable(quoted, whole) || assigned_name(plain) > 0 ||
           secret_key(plain) > 0 || (equals != plain.npos && names_secret(plain.substr(0, equals)));
  }

  /// A word as it stands there where nothing of it is hidden, else quoted anew. `whole`: with what
  /// stands behind it in the same word.
  std::string word(std::string_view quoted, std::string_view whole) {
    const std::string plain = unquoted(quoted);
    const bool hide = next_is_secret_ || is_unreadable(quoted, whole), named = after_name_;
    const bool names = names_secret(plain);
    const bool sign = plain == "=" || plain == ":";
    after_name_ = names && std::ranges::all_of(plain, is_word_character);
    // `token = X`, `token =X`, `token= X`
    next_is_secret_ = (is_option(plain) && names) || (sign && (hide || named)) ||
                      (names && plain.ends_with('=') && assigned_name(plain) == plain.size());
    next_is_account_ = names_account(plain);
    if (sign && (hide || named)) return std::string(quoted);
    if (hide) return std::string(kHidden);
    if (named && plain.starts_with('=')) return std::string("=").append(kHidden);
    const std::string out = plain == quoted ? bare(plain) : value(plain);
    if (out == plain) return std::string(quoted);
    return out.find_first_of(" \t\n\"'\\;&|<>()`#") == out.npos ? out : shell_word(out);
  }

  /// A word without quotes.
  std::string bare(std::string_view plain) {
    if (assigned_name(plain) > 0) return redacted_word(plain);
    if (holds_account(plain)) {
      const size_t name = plain.starts_with("--") ? plain.find('=') + 1 : 2;
      return std::string(plain.substr(0, name)).append(kHidden);
    }
    const size_t equals = plain.starts_with('-') ? plain.find('=') : plain.npos;
    const size_t key = secret_key(plain);
    if (key > 0 && key < equals) {
      // Behind `Authorization:` stand the words of its value.
      rest_is_secret_ = key == plain.size();
      return std::string(plain.substr(0, key)).append(rest_is_secret_ ? "" : kHidden);
    }
    if (equals == plain.npos) return redacted_word(plain);
    const std::string_view text = plain.substr(equals + 1);
    const bool hide = names_secret(plain.substr(0, equals)) || text.starts_with('-');
    return std::string(plain.substr(0, equals + 1)) + (hide ? std::string(kHidden) : value(text));
  }

  /// What quotes held together: one value, or a command of its own.
  std::string value(std::string_view plain) {
    const bool one = assigned_name(plain) > 0 || plain.find_first_of(" \t\n\"'\\") == plain.npos;
    const bool option = plain.starts_with('-') && plain.find('=') < plain.find(' ');
    return one || option ? bare(plain) : redacted_command(plain);
  }

  bool next_is_secret_ = false;
  bool next_is_account_ = false;  // behind -u
  bool after_name_ = false;       // behind `token`, where = may follow
  bool rest_is_secret_ = false;
};

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
  if (name > 0) return std::string(word.substr(0, name)).append(kHidden);
  return redacted_address(word);
}

std::string redacted_command(std::string_view command) { return Redactor().text(command); }

std::string marked(const std::string& shown, std::string_view whole) {
  return shown + " #" + hash_of(whole).hex().substr(0, kMarkDigits);
}

std::string_view unmarked(std::string_view text) {
  if (text.size() < kMarkDigits + 2) return text;
  const std::string_view mark = text.substr(text.size() - kMarkDigits - 2);
  const bool digits = mark.find_first_not_of("0123456789abcdef", 2) == mark.npos;
  return mark.starts_with(" #") && digits ? text.substr(0, text.size() - mark.size()) : text;
}

}  // namespace rlreplay
