#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "format/foreign/torch_file.h"
#include "format/foreign/tree_check.h"

namespace rlreplay::replay {

/// The step of each sample, by index, that a train dump says; nothing where it says none.
/// Errors: kCorrupt where the schedule contradicts itself.
[[nodiscard]] std::optional<std::map<int64_t, int64_t>> read_schedule(
    const foreign::TorchFile& file);

/// What a file's schedule says against itself, and against its samples: a schedule-mismatch each.
/// Errors: those of read_schedule.
[[nodiscard]] std::vector<foreign::Problem> check_schedule(const foreign::TorchFile& file);

/// Of the files of one rollout those that lack what another one says of the schedule, or, of other
/// samples, say another number of steps or other sizes of batches (also the dynamic one): a
/// schedule-mismatch each.
[[nodiscard]] std::vector<foreign::Problem> compare_schedules(
    std::span<const foreign::TorchFile* const> files);

/// Of the files of one rollout those that lack what another one says of the layout of the ranks, or
/// say it otherwise: a schedule-mismatch each.
[[nodiscard]] std::vector<foreign::Problem> check_layouts(
    std::span<const foreign::TorchFile* const> files);

/// How many trajectories the trainer counted in each step; empty where the dump does not say.
[[nodiscard]] std::vector<int64_t> read_batch_sizes(const foreign::TorchFile& file);

/// The same, by the first of the files of one rollout that says it.
[[nodiscard]] std::vector<int64_t> read_batch_sizes(
    std::span<const foreign::TorchFile* const> files);

}  // namespace rlreplay::replay
