#pragma once

#include <string_view>

namespace rlreplay {

/// Whether `a` stands before `b` where runs of digits count as numbers: `step 2` before `step 10`.
/// An order of all texts: what differs in leading zeros alone is ordered by its bytes.
[[nodiscard]] bool natural_less(std::string_view a, std::string_view b);

}  // namespace rlreplay
