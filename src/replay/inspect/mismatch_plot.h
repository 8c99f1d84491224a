#pragma once

#include <string>

#include "src/replay/inspect/mismatch.h"

namespace rlreplay::replay {

/// A self-contained SVG: the distribution of |d|, and its largest and mean value by position and,
/// where there are several, by rollout. `title` is shown above.
[[nodiscard]] std::string mismatch_svg(const Mismatch& mismatch, const std::string& title);

}  // namespace rlreplay::replay
