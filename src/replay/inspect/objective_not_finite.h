#pragma once

#include <span>
#include <string>

#include "src/replay/inspect/objective_check.h"

namespace rlreplay::replay {

/// Of a step that recorded a NaN or an infinity: where the first of them enters, in the order in
/// which a step computes; empty for any other.
std::string first_not_finite(const RecordedStep& step, std::span<const Quantity> quantities);

}  // namespace rlreplay::replay
