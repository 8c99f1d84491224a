#pragma once

#include "format/group_io.h"
#include "format/rollout_data.h"

namespace rlreplay::format {

/// Makes of `NAME_present` what a column has as its own word for a sample without a value: `finish`
/// unknown; no versions; no calls, or of a call an unknown finish or truncation and NaN; experts
/// that were not recorded, gates NaN.
/// Errors: FormatError where the mask is none of the samples.
void settle_absent(GroupReader& reader, RolloutData& data);

}  // namespace rlreplay::format
