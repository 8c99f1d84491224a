#pragma once

#include <vector>

#include "format/foreign/torch_file.h"
#include "format/foreign/tree_check.h"

namespace rlreplay::replay {

/// What a file's schedule says against itself, and against its samples: a schedule-mismatch each.
/// Errors: those of read_schedule.
[[nodiscard]] std::vector<foreign::Problem> check_schedule(const foreign::TorchFile& file);

}  // namespace rlreplay::replay
