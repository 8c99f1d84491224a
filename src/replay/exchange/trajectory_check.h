#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "format/foreign/torch_file.h"
#include "format/foreign/train_shard.h"
#include "format/foreign/tree_check.h"

namespace rlreplay::replay {

/// What the samples of a rollout's files say of the trajectories that its steps took.
struct TrajectoryCheck {
  int64_t taken = 0;  // by the sizes of the batches; 0 where no file says them
  int64_t named = 0;  // by the samples
  /// Samples that name another's trajectory, so that fewer are named than were taken, or something
  /// else than a trajectory: a schedule-mismatch each.
  std::vector<foreign::Problem> problems;

  /// How many trajectories were taken and no sample names, beside those of `problems`.
  int64_t missing() const { return taken - named - static_cast<int64_t>(problems.size()); }
};

/// Counts the trajectories of the files of one rollout. A sample without `rollout_ids` is one of
/// its own. Errors: kCorrupt.
[[nodiscard]] TrajectoryCheck check_trajectories(std::span<const foreign::TrainShard> shards,
                                                 std::span<const int64_t> batch_sizes);

/// A schedule-mismatch where the steps took more than all samples of their rollout, which are
/// there. `generated`: how many samples it has; nothing where it is not there.
[[nodiscard]] std::vector<foreign::Problem> check_sizes_of_all(
    std::span<const foreign::TrainShard> shards, const TrajectoryCheck& found,
    std::optional<size_t> generated);

/// The first step that does not hold as many trajectories as the size of its batch says, a
/// schedule-mismatch: of files that hold all that was `found`, each of one step. Sizes that are, of
/// all steps, numbers of something else are none: of samples, or of those of each rank.
/// Errors: kCorrupt.
[[nodiscard]] std::vector<foreign::Problem> check_step_sizes(
    std::span<const foreign::TorchFile* const> files, std::span<const int64_t> sizes,
    const TrajectoryCheck& found);

}  // namespace rlreplay::replay
