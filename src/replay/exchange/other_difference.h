#pragma once

#include <string>
#include <vector>

namespace rlreplay::replay {

/// Of two folders of other programs' files: those that no import reads and that only one has, or
/// that have other bytes, a sentence each, of many the first few and their number. Nothing of paths
/// that are no such folders. Errors: as of find_sources.
std::vector<std::string> other_differences(const std::string& a, const std::string& b);

}  // namespace rlreplay::replay
