#pragma once

#include <vector>

#include "format/dump_reader.h"
#include "format/rule.h"

namespace rlreplay::format {

/// Checks the datasets of a unit that the tables know: what must be there, dtypes, shapes that
/// agree with one another, and values. Reads only datasets whose values are bound by a rule.
void check_meaning(const UnitReader& unit, std::vector<Problem>& problems);

}  // namespace rlreplay::format
