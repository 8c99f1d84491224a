#include "src/base/shell_text.h"

#include <algorithm>

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

size_t word_size(std::string_view text) {
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'') {
      ++i;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
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

std::string unquoted(std::string_view word) {
  std::string out;
  char quote = 0;
  for (size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
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

}  // namespace rlreplay
