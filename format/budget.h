#pragma once

#include <cstdint>
#include <string>

#include "format/unit.h"

/// What may be taken into memory of what a unit claims to decode to: zeros compress a thousand
/// times, so a small file can claim anything.
namespace rlreplay::format {

/// For columns of samples and events, of which no real run leaves more. `bytes` counts all that is
/// held of the unit. Errors: FormatError kDataLimit.
void check_budget(const UnitRecord& unit, const std::string& dataset, uint64_t bytes);

/// For tensors, which may be zero everywhere: beyond the budget, half of the memory that is
/// available. Errors: as above.
void check_memory(const UnitRecord& unit, const std::string& dataset, uint64_t bytes);

}  // namespace rlreplay::format
