#pragma once

#include <string_view>
#include <vector>

#include "format/rule.h"
#include "format/unit_reader.h"

namespace rlreplay::format {

/// Checks that what a dataset, `name` below its group, says of the parts that it holds is sound;
/// those of the tables are cut by `slices`.
void check_boxes(const UnitReader& unit, std::string_view name, const StoredDataset& dataset,
                 std::vector<Problem>& problems);

}  // namespace rlreplay::format
