#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/foreign/torch_file.h"

namespace rlreplay::replay {

/// What the train dumps of one rollout say of each other: rank-missing (a number is left out, or
/// the files hold fewer samples than they say were trained on), replica-mismatch (copies of tensor
/// or pipeline parallelism differ), slice-missing, schedule-mismatch, and what keeps them from
/// being put together; of a file that lists a sample twice that alone. `generated`: how many
/// samples their rollout has, where it is there; else compare_raw_rewards, too.
[[nodiscard]] std::vector<foreign::Problem> check_rank_files(
    std::span<const foreign::TorchFile* const> files, std::optional<size_t> generated);

/// Whether a file's name says which rollout, rank or call it is of: "train_data/0_1.pt".
[[nodiscard]] bool names_dump(const std::string& name);

/// Whether a file of train_data/ or rollout_data/ is what its name says, of which rollout and rank,
/// and one of policy_loss_debug/, of which rank and call: name-mismatch.
[[nodiscard]] std::vector<foreign::Problem> check_name(const std::string& name,
                                                       const foreign::TorchFile& file);

}  // namespace rlreplay::replay
