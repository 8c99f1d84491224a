#pragma once

#include <optional>
#include <string>

#include "format/dump_reader.h"

namespace rlreplay::replay {

/// Where the foreign files differ that a unit of two dumps keeps, and what each says there:
/// "rollout_data.truncated[2]: 0, in B 1". Empty where they say the same, nothing where either
/// cannot be restored.
[[nodiscard]] std::optional<std::string> kept_difference(const format::DumpReader& a,
                                                         const format::DumpReader& b,
                                                         const std::string& unit);

}  // namespace rlreplay::replay
