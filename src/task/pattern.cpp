#include "src/task/pattern.h"

// pcre2.h declares nothing without it.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <new>
#include <string>

#include <pcre2.h>

#include "src/base/error.h"

namespace rlreplay {
namespace {

// Unicode's White_Space. PCRE2's own \s also holds U+180E.
constexpr std::string_view kSpace =
    "\\t-\\r\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
    "\\x{3000}";

/// `regex` with \s and \S spelled out, inside and outside classes.
std::string spell_spaces(std::string_view regex) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < regex.size(); ++i) {
    if (regex[i] == '\\' && i + 1 < regex.size()) {
      const char escaped = regex[++i];
      if (escaped == 's') {
        out.append(in_class ? "" : "[").append(kSpace).append(in_class ? "" : "]");
      } else if (escaped == 'S') {
        check(!in_class, "\\S inside a class is not supported");
        out.append("[^").append(kSpace).append("]");
      } else {
        out.append({'\\', escaped});
      }
      continue;
    }
    if (regex[i] == '[') in_class = true;
    if (regex[i] == ']') in_class = false;
    out += regex[i];
  }
  return out;
}

struct CodeDeleter {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
};
struct MatchDeleter {
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};

}  // namespace

struct Pattern::Impl {
  std::unique_ptr<pcre2_code, CodeDeleter> code;
};

Pattern::Pattern(std::string_view regex) : impl_(std::make_unique<Impl>()) {
  const std::string spelled = spell_spaces(regex);
  int status = 0;
  PCRE2_SIZE where = 0;
  impl_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                                  PCRE2_UTF | PCRE2_UCP, &status, &where, nullptr));
  check(impl_->code != nullptr, "a pattern does not compile");
  // Where no just-in-time compiler is allowed, the interpreter finds the same matches.
  static_cast<void>(pcre2_jit_compile(impl_->code.get(), PCRE2_JIT_COMPLETE));
}

Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

void Pattern::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  const std::unique_ptr<pcre2_match_data, MatchDeleter> match(
      pcre2_match_data_create_from_pattern(impl_->code.get(), nullptr));
  if (match == nullptr) throw std::bad_alloc();
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match.get());
  size_t done = 0;
  while (done < text.size()) {
    // The text is well-formed; checking it again at each match would make a long text's cost grow
    // by its square.
    const int found = pcre2_match(impl_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                  text.size(), done, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      throw Error(ErrorCode::kUnsupported,
                  "splitting the text exceeds the limits of PCRE2 (its error " +
                      std::to_string(found) + "); cut the text into shorter ones");
    }
    check(span[1] > span[0], "a splitting pattern matched nothing");
    if (span[0] > done) pieces.push_back(text.substr(done, span[0] - done));
    pieces.push_back(text.substr(span[0], span[1] - span[0]));
    done = span[1];
  }
  if (done < text.size()) pieces.push_back(text.substr(done));
}

std::string pcre2_version() {
  char text[64] = {};  // "10.42 2022-12-11"
  pcre2_config(PCRE2_CONFIG_VERSION, text);
  const std::string whole = text;
  return whole.substr(0, whole.find(' '));
}

}  // namespace rlreplay
