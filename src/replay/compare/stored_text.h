#pragma once

#include <string>
#include <utility>

#include "src/replay/compare/group_difference.h"

namespace rlreplay::replay {

/// What two dumps have of a field whose values are those of the other: their columns in order, or
/// type, shape, attributes and hash.
[[nodiscard]] std::pair<std::string, std::string> stored_texts(const GroupUnits& a,
                                                               const GroupUnits& b,
                                                               const std::string& group,
                                                               const std::string& field);

}  // namespace rlreplay::replay
