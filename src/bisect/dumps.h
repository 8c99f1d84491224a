#pragma once

#include <string>

#include "src/bisect/verdict.h"
#include "src/replay/compare/dumps_difference.h"

namespace rlreplay::bisect {

/// Compares two dumps that were recorded to their end, as `rlreplay diff` does. Nothing is run.
/// Errors: kIncomplete, those of the format.
[[nodiscard]] replay::DumpsDifference compare_dumps(const std::string& a, const std::string& b,
                                                    const replay::ElementFinder& find_element);

/// Whether a dump can be the reference of others: it is whole, and has what decides.
[[nodiscard]] Judgement judge_reference_dump(const Criterion& criterion, const std::string& path);

/// Judges a dump against that of the good end. A dump that cannot be read, or whose steps are not
/// those of the reference, is skipped.
[[nodiscard]] Judgement judge_dump(const Criterion& criterion, const std::string& reference,
                                   const std::string& path);

}  // namespace rlreplay::bisect
