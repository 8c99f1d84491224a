#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace rlreplay {

/// "1 step", "2 steps".
std::string counted(std::integral auto n, std::string_view one) {
  return std::to_string(n) + " " + std::string(one) + (n == 1 ? "" : "s");
}

}  // namespace rlreplay
