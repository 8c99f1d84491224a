#pragma once

#include <string>

#include "src/replay/exchange/dumps_difference.h"

namespace rlreplay::bisect {

/// Compares two dumps that were recorded to their end, as `rlreplay diff` does. Nothing is run.
/// Errors: kIncomplete, those of the format.
replay::DumpsDifference compare_dumps(const std::string& a, const std::string& b);

}  // namespace rlreplay::bisect
