#pragma once

#include <span>
#include <vector>

#include "format/foreign/torch_file.h"
#include "format/foreign/tree_check.h"
#include "src/replay/exchange/train_schedule.h"

namespace rlreplay::replay {

/// A schedule-mismatch for each file of one rollout that lacks what another one says of the
/// schedule or, of other samples, says another number of steps or other sizes of batches (also the
/// dynamic one), and for a rollout of which all lack one of the two lists that say the steps.
[[nodiscard]] std::vector<foreign::Problem> compare_schedules(
    std::span<const foreign::TorchFile* const> files);

/// A schedule-mismatch for each file of one rollout that lacks what another one says of the layout
/// of the ranks, or says it otherwise.
[[nodiscard]] std::vector<foreign::Problem> check_layouts(
    std::span<const foreign::TorchFile* const> files);

}  // namespace rlreplay::replay
