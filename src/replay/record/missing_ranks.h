#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace rlreplay::replay {

/// Which of `ranks` ranks are not there: "1, 2, 5, 6 and 90 more"; empty where none is missing.
[[nodiscard]] std::string missing_ranks(const std::set<int64_t>& there, int64_t ranks);

}  // namespace rlreplay::replay
