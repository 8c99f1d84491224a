#pragma once

#include "format/dataset.h"
#include "format/unit.h"

namespace rlreplay::format {

/// Called before a dataset is decoded whole: check_budget for what lies in tables of samples and
/// events, check_memory for other tensors, and for a difference, which is small however much it
/// rests on. Errors: FormatError kDataLimit.
void check_whole(const UnitRecord& unit, const StoredDataset& dataset);

}  // namespace rlreplay::format
