#pragma once

#include <string>

#include "format/dump_reader.h"

namespace rlreplay::replay {

/// Where the foreign files differ that a unit of two dumps keeps, and what each says there:
/// "rollout_data.truncated[2]: 0, in B 1". Empty where no field does, or either cannot be restored.
std::string kept_difference(const format::DumpReader& a, const format::DumpReader& b,
                            const std::string& unit);

}  // namespace rlreplay::replay
