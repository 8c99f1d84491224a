#pragma once

#include <string>

#include "src/replay/compare/dumps_difference.h"

namespace rlreplay::bisect {

/// Compares two dumps that were recorded to their end, as `rlreplay diff` does. Nothing is run.
/// Errors: kIncomplete, those of the format.
replay::DumpsDifference compare_dumps(const std::string& a, const std::string& b,
                                      const replay::ElementFinder& find_element);

}  // namespace rlreplay::bisect
