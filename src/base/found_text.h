#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace rlreplay {

/// "WHAT: found 2, expected 3": what is wrong with one value of a file.
[[nodiscard]] inline std::string found_text(std::string_view what, std::string_view found,
                                            std::string_view expected) {
  std::string out(what);
  return out.append(": found ").append(found).append(", expected ").append(expected);
}

/// The same of two numbers.
[[nodiscard]] std::string found_text(std::string_view what, std::integral auto found,
                                     std::integral auto expected) {
  return found_text(what, std::to_string(found), std::to_string(expected));
}

}  // namespace rlreplay
