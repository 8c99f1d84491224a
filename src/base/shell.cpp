#include "src/base/shell.h"

#include <algorithm>
#include <charconv>

namespace rlreplay {
namespace {

using Kind = ShellPart::Kind;

constexpr std::string_view kBlanks = " \t\r";
constexpr std::string_view kRuns = ";&|<>";
constexpr std::string_view kSingles = "()`\n";

bool is_of(std::string_view set, char c) { return set.find(c) != set.npos; }

size_t run_of(std::string_view set, std::string_view text) {
  return std::min(text.find_first_not_of(set), text.size());
}

/// Behind the `$'...'` at `i`, in which a backslash stands before a quote that does not end it.
size_t end_of_named(std::string_view text, size_t i) {
  for (i += 2; i < text.size() && text[i] != '\''; ++i) i += text[i] == '\\' ? 1 : 0;
  return std::min(i + 1, text.size());
}

/// Goes over pieces of a word: a character, a quoted text, a substitution.
class Pieces {
 public:
  explicit Pieces(std::string_view text) : text_(text) {}

  /// Behind the piece at `i`.
  size_t end_of(size_t i, int depth = 0) const {
    const std::string_view rest = text_.substr(i);
    if (depth > kDepth) return text_.size();
    if (rest.starts_with("$'")) return end_of_named(text_, i);
    if (rest.starts_with("$(")) return end_of_group(i + 2, ')', depth);
    if (rest.starts_with("${")) return end_of_group(i + 2, '}', depth);
    switch (rest[0]) {
      case '(':
        return end_of_group(i + 1, ')', depth);
      case '"':
      case '`':
        return end_of_group(i + 1, rest[0], depth);
      case '\'':
        return std::min(text_.find('\'', i + 1), text_.size() - 1) + 1;
      case '\\':
        return std::min(i + 2, text_.size());
      default:
        return i + 1;
    }
  }

 private:
  static constexpr int kDepth = 200;  // of what stands in one another: the stack is finite

  /// Behind the character that ends what began before `i`. Within `"..."` only backslashes and
  /// substitutions have a meaning.
  size_t end_of_group(size_t i, char end, int depth) const {
    while (i < text_.size() && text_[i] != end) {
      const bool plain = end == '"' && !is_of("\\`", text_[i]) &&
                         !text_.substr(i).starts_with("$(") && !text_.substr(i).starts_with("${");
      i = plain ? i + 1 : end_of(i, depth + 1);
    }
    return std::min(i + 1, text_.size());
  }

  std::string_view text_;
};

/// The character that a backslash of `$'...'` names, and takes it from the text.
char take_named(std::string_view& text) {
  constexpr std::string_view kNames = "abefnrtv", kValues = "\a\b\x1b\f\n\r\t\v";
  const char c = text[0];
  const size_t name = kNames.find(c);
  const int base = c == 'x' ? 16 : 8;
  const size_t first = c == 'x' ? 1 : 0;
  const std::string_view digits =
      text.substr(first, run_of(base == 16 ? "0123456789abcdefABCDEF" : "01234567",
                                text.substr(first, base == 16 ? 2 : 3)));
  if (name == kNames.npos && !digits.empty()) {
    int code = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), code, base);
    text.remove_prefix(first + digits.size());
    return static_cast<char>(code);
  }
  text.remove_prefix(1);
  return name == kNames.npos ? c : kValues[name];
}

size_t word_size(std::string_view text) {
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'') {
      ++i;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (text.substr(i).starts_with("$'")) {
      i = end_of_named(text, i) - 1;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (is_of(kBlanks, c) || is_of(kRuns, c) || is_of(kSingles, c)) {
      return i;
    }
  }
  return text.size();
}

/// The lines up to the one that is `end`; none where no line is: << has shifted a number.
size_t here_size(std::string_view text, const std::string& end) {
  for (size_t at = 0; at < text.size();) {
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    at = std::min(at + line.size() + 1, text.size());
    if (line.substr(run_of("\t", line)) == end) return at;
  }
  return 0;
}

/// Takes one part after the other; each time the text gets shorter. A here-document begins behind
/// the line that names it: until the line ends its name waits in `here_`.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  std::vector<ShellPart> read() {
    while (!rest_.empty()) take();
    return std::move(parts_);
  }

 private:
  void take() {
    const char c = rest_[0];
    if (rest_.starts_with("\\\n")) return add(Kind::kBlank, 2);
    if (is_of(kBlanks, c)) return add(Kind::kBlank, run_of(kBlanks, rest_));
    if (c == '\n') return take_end_of_line();
    if (is_of(kSingles, c)) return add(Kind::kOperator, 1);
    if (is_of(kRuns, c)) return add(Kind::kOperator, run_of(kRuns, rest_));
    if (c == '#') return add(Kind::kComment, std::min(rest_.find('\n'), rest_.size()));
    take_word();
  }

  void take_word() {
    const bool here = asks_for_here();
    add(Kind::kWord, word_size(rest_));
    if (!here) return;
    const std::string end = unquoted(parts_.back().text);
    here_.push_back(end.starts_with('-') ? end.substr(1) : end);
  }

  void take_end_of_line() {
    add(Kind::kOperator, 1);
    for (const std::string& end : here_) add(Kind::kHere, here_size(rest_, end));
    here_.clear();
  }

  /// Whether what was read ends in `<<`, with a blank at most behind it.
  bool asks_for_here() const {
    size_t last = parts_.size();
    while (last > 0 && parts_[last - 1].kind == Kind::kBlank) --last;
    return last > 0 && parts_[last - 1].kind == Kind::kOperator &&
           parts_[last - 1].text.ends_with("<<") && !parts_[last - 1].text.ends_with("<<<");
  }

  void add(Kind kind, size_t size) {
    if (size > 0) parts_.push_back({kind, rest_.substr(0, size)});
    rest_.remove_prefix(size);
  }

  std::string_view rest_;
  std::vector<ShellPart> parts_;
  std::vector<std::string> here_;  // last lines of the documents that begin on the next line
};

}  // namespace

bool ShellPart::is_redirection() const {
  return kind == Kind::kOperator && text.find_first_of("<>") != text.npos;
}

std::vector<ShellPart> shell_parts(std::string_view text) { return Reader(text).read(); }

size_t whole_word_size(std::string_view text) {
  const Pieces pieces(text);
  size_t i = 0;
  while (i < text.size()) {
    const bool list = text[i] == '(' && i > 0 && text[i - 1] == '=';
    const bool ends = is_of(kBlanks, text[i]) || is_of(kRuns, text[i]) || is_of("()\n", text[i]);
    if (ends && !list) break;
    i = pieces.end_of(i);
  }
  return i;
}

std::string unquoted(std::string_view word) {
  std::string out;
  char quote = 0;
  for (size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    if (quote == 0 && word.substr(i).starts_with("$'")) {
      const size_t end = end_of_named(word, i);
      std::string_view named = word.substr(i + 2, end - i - 2);
      if (named.ends_with('\'')) named.remove_suffix(1);
      while (!named.empty()) {
        const bool escape = named[0] == '\\' && named.size() > 1;
        if (escape) named.remove_prefix(1);
        out += escape ? take_named(named) : named[0];
        if (!escape) named.remove_prefix(1);
      }
      i = end - 1;
      continue;
    }
    if (quote == 0 && word.substr(i).starts_with("$\"")) continue;
    const bool escapes = c == '\\' && i + 1 < word.size() && quote != '\'' &&
                         (quote == 0 || is_of("\"\\$`\n", word[i + 1]));
    if (escapes) {
      if (word[++i] != '\n') out += word[i];
    } else if (quote != 0 ? c == quote : (c == '\'' || c == '"')) {
      quote = quote != 0 ? 0 : c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string shell_word(const std::string& text) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%^";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace rlreplay
