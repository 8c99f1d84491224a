#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rlreplay {

/// A regular expression over well-formed UTF-8, compiled once; a const Pattern may be used by many
/// threads. `\s` and `\S` mean Unicode's White_Space, as in the library that tokenizers' patterns
/// are written for, not PCRE2's wider set.
class Pattern {
 public:
  /// Errors: kInternal when `regex` does not compile.
  explicit Pattern(std::string_view regex);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  /// Cuts the text into matches and what lies between them, and appends all of these, in order.
  /// Errors: kUnsupported when the search exceeds PCRE2's limits.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The version of PCRE2 as it is loaded.
[[nodiscard]] std::string pcre2_version();

}  // namespace rlreplay
