#pragma once

#include <string>
#include <string_view>

namespace rlreplay {

/// "a, b, c".
template <class Texts>
std::string joined(const Texts& texts, std::string_view between) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : std::string(between)) + text;
  return out;
}

}  // namespace rlreplay
