#pragma once

#include <string>
#include <vector>

#include "format/rollout_data.h"
#include "format/train_data.h"

/// Reads a group in part: optional fields of the names in `leave_out` stay absent, and their
/// datasets are not decoded. Errors: as where the whole group is read.
namespace rlreplay::format {

[[nodiscard]] RolloutData read_rollout_data(const DumpReader& dump, const UnitReader& unit,
                                            const std::string& group,
                                            std::vector<std::string> leave_out);

}  // namespace rlreplay::format
