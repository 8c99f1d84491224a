#pragma once

#include <string>

#include "src/bisect/changes.h"

namespace rlreplay::bisect {

/// A line a change, the oldest first.
[[nodiscard]] std::string changes_text(const Changes& changes);

/// One object of the schema rlreplay.changes/1.
[[nodiscard]] std::string changes_json(const Changes& changes);

}  // namespace rlreplay::bisect
