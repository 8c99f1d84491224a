#pragma once

#include <string>
#include <vector>

#include "format/rollout_data.h"
#include "format/train_data.h"

/// Groups read in part: optional fields of the names in `leave_out` stay absent, their datasets
/// undecoded.
/// Errors: as of the whole.
namespace rlreplay::format {

[[nodiscard]] RolloutData read_rollout_data(const DumpReader& dump, const UnitReader& unit,
                                            const std::string& group,
                                            std::vector<std::string> leave_out);

}  // namespace rlreplay::format
