#pragma once

#include <span>
#include <vector>

#include "format/foreign/torch_file.h"
#include "format/foreign/tree_check.h"
#include "src/replay/exchange/train_schedule.h"

namespace rlreplay::replay {

/// Of the files of one rollout those that lack what another one says of the schedule, or, of other
/// samples, say another number of steps or other sizes of batches (also the dynamic one): a
/// schedule-mismatch each.
[[nodiscard]] std::vector<foreign::Problem> compare_schedules(
    std::span<const foreign::TorchFile* const> files);

/// Of the files of one rollout those that lack what another one says of the layout of the ranks, or
/// say it otherwise: a schedule-mismatch each.
[[nodiscard]] std::vector<foreign::Problem> check_layouts(
    std::span<const foreign::TorchFile* const> files);

}  // namespace rlreplay::replay
