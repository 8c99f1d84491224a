#pragma once

#include "src/bisect/history_search.h"

namespace rlreplay::bisect {

/// What a search tells while it goes on, on standard error: a line when a run begins and one for
/// each verdict. On a terminal the lines of verdicts scroll, and below them stand a strip of the
/// history, what runs and how much is left.
[[nodiscard]] Listener live_screen();

}  // namespace rlreplay::bisect
