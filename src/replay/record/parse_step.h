#pragma once

#include <optional>
#include <string_view>

#include "src/base/step_id.h"

namespace rlreplay::replay {

/// A step by either name, "3.0" or "3-0", of which each number may be negative; nothing for any
/// other text.
[[nodiscard]] std::optional<StepId> parse_step(std::string_view text);

}  // namespace rlreplay::replay
