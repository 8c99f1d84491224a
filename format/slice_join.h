#pragma once

#include <string>
#include <vector>

#include "format/train_ranks.h"

namespace rlreplay::format {

/// join_slices, whose text says what is done, without naming which samples a rank held before.
/// Errors: as of it.
void put_together(std::vector<TrainRank>& ranks, const std::string& group, HeldBytes& held);

}  // namespace rlreplay::format
