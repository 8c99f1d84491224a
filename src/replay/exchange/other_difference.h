#pragma once

#include <string>
#include <vector>

namespace rlreplay::replay {

/// Sentences on files that no import reads and that only one of two folders has, or that have other
/// bytes: of many the first few, and how many more. Empty for paths that are no folders of other
/// programs' files. Errors: as of find_sources.
[[nodiscard]] std::vector<std::string> other_differences(const std::string& a,
                                                         const std::string& b);

}  // namespace rlreplay::replay
