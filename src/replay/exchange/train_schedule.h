#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/foreign/numbers.h"
#include "format/foreign/torch_file.h"

namespace rlreplay::replay {

/// What one shard says of a rollout's steps: a dict of sample_indices, and of micro_batch_indices
/// (rows of each micro-batch) and num_microbatches (of each step).
struct ScheduleShard {
  foreign::Value dict;
  std::optional<foreign::Numbers> samples, counts;
  const foreign::Sequence* batches = nullptr;

  [[nodiscard]] bool says_steps() const { return samples && counts && batches != nullptr; }
};

/// The shards of a file: of one rank its own; of slime's one file a rollout those of all.
[[nodiscard]] std::vector<ScheduleShard> schedule_shards(const foreign::TorchFile& file);

/// The step of a sample, and the shard that says it.
struct StepOf {
  int64_t step = 0;
  size_t shard = 0;
};

/// Adds the samples of one shard, which is the file's `number`th, by index. Returns whether its
/// micro-batches hold rows. Errors: kCorrupt where the shard contradicts itself or an earlier one.
[[nodiscard]] bool add_steps(const foreign::TorchFile& file, const ScheduleShard& shard,
                             size_t number, std::map<int64_t, StepOf>& steps);

/// The step of each sample, by index, that a train dump says; nothing where it says none.
/// Errors: kCorrupt where the schedule contradicts itself.
[[nodiscard]] std::optional<std::map<int64_t, int64_t>> read_schedule(
    const foreign::TorchFile& file);

/// How many trajectories the trainer counted in each step; empty where the dump does not say.
[[nodiscard]] std::vector<int64_t> read_batch_sizes(const foreign::TorchFile& file);

/// How many trajectories the trainer counted in each step, by the first of the files of one rollout
/// that says it.
[[nodiscard]] std::vector<int64_t> read_batch_sizes(
    std::span<const foreign::TorchFile* const> files);

/// The same; where no file says it, the size of the one batch of Miles' multi-LoRA, which trains on
/// a rollout in one step.
[[nodiscard]] std::vector<int64_t> read_taken(std::span<const foreign::TorchFile* const> files);

/// slime's name of the sizes of a rollout's batches, and Miles'.
inline constexpr std::array kBatchSizes = {"global_batch_sizes", "num_rollouts"};

/// What a dict says of a key; nothing for None, too.
[[nodiscard]] const foreign::Value* schedule_value(const foreign::TorchFile& file,
                                                   foreign::Value dict, std::string_view key);

/// The numbers that a dict has of a key in a list, tensor or array; nothing for any other value.
[[nodiscard]] std::optional<foreign::Numbers> schedule_numbers(const foreign::TorchFile& file,
                                                               foreign::Value dict,
                                                               std::string_view key);

/// What two say of one key, where it is not the same; nothing where it is.
[[nodiscard]] std::optional<std::string> unlike_numbers(const std::string& key,
                                                        const foreign::Numbers& a,
                                                        const std::string& in_a,
                                                        const foreign::Numbers& b,
                                                        const std::string& in_b);

}  // namespace rlreplay::replay
