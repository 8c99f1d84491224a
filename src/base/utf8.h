#pragma once

#include <string_view>

namespace rlreplay {

/// Whether surrogates, encoded one by one in three bytes as Python's `surrogatepass` does, count
/// as text.
enum class Surrogates { kRefused, kAllowed };

[[nodiscard]] bool is_utf8(std::string_view text, Surrogates surrogates);

}  // namespace rlreplay
