#pragma once

#include <vector>

#include "src/events/table.h"

namespace rlreplay::engine {

/// The lines of event_table(), built anew.
[[nodiscard]] std::vector<EventSpec> make_event_lines();

}  // namespace rlreplay::engine
