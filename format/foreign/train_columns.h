#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace rlreplay::foreign {

/// What a column of training data holds. Of each sample or of none, but for kOptional and kBatch.
enum class Holds {
  kValue,     // a value of each sample
  kOptional,  // a value of a sample, or nothing
  kResponse,  // of each sample a number of each token of its response
  kSlice,     // the same, and a rank of context parallelism has its slice of it
  kAnySlice,  // the same, in files that hold all else whole, too
  kLogProbs,  // a kSlice: of tokens that count finite and not above zero
  kBatch,     // one value of all samples of a rank
  kRollout,   // one value of all samples of a rollout, which each rank repeats
};

/// What the files of two ranks that hold the same samples must say of a column.
enum class Alike {
  kInSlice,    // the same of each sample where they have the same slice
  kWhereBoth,  // the same of each sample, where both have it of each
  kAlways,     // the same; a column of samples both have, and of the same ones
};

/// Which ranks have a column where one has it.
enum class HadBy {
  kStage,      // those of one stage of a pipeline
  kLastStage,  // the same: the last one, which computes it
  kEvery,
  kSchedule,  // every one: asked where the schedule is (compare_schedules)
};

/// How a column that no trainer computes is held against the field of the rollout's samples that
/// it repeats.
enum class Repeats {
  kNothing,
  kShort,       // whole; its hash is known of each sample, so that a rollout is not read again
  kLong,        // whole
  kRounded,     // maybe cut, and maybe rounded to the trainer's type
  kInSteps,     // where a dump's steps are held against its rollouts
  kThere,       // of the same samples; its values may be of another type
  kInMetadata,  // whole integers, of the rollout's metadata in place of its samples
};

/// A column of a framework's training data: what is known of it before a file is read.
struct TrainColumn {
  std::string_view name;
  Holds holds = Holds::kValue;
  Alike alike = Alike::kInSlice;
  HadBy had_by = HadBy::kStage;
  Repeats repeats = Repeats::kNothing;
  std::string_view field = {};

  [[nodiscard]] constexpr bool is_cut() const {
    return holds == Holds::kSlice || holds == Holds::kAnySlice || holds == Holds::kLogProbs;
  }
  [[nodiscard]] constexpr bool is_of_response() const {
    return is_cut() || holds == Holds::kResponse;
  }
  [[nodiscard]] constexpr bool is_by_sample() const {
    return holds != Holds::kBatch && holds != Holds::kRollout;
  }
  [[nodiscard]] constexpr bool is_of_each() const {
    return is_by_sample() && holds != Holds::kOptional;
  }
};

/// The known columns of training data, in the order in which what is wrong with them is said.
inline constexpr auto kTrainColumns = [] {
  using enum Holds;
  using enum Alike;
  using enum HadBy;
  using enum Repeats;
  return std::to_array<TrainColumn>({
      {"tokens", kValue, kAlways, kStage},
      {"total_lengths", kValue, kAlways, kStage},
      {"response_lengths", kValue, kAlways, kStage},
      {"loss_masks", kResponse, kAlways, kStage},
      {"rewards", kValue, kAlways, kStage},
      {"truncated", kValue, kAlways, kStage, kShort, "status"},
      {"sample_indices", kValue, kAlways, kStage},
      {"rollout_ids", kValue, kAlways, kStage, kShort, "rollout_id"},
      {"rollout_mask_sums", kValue, kAlways, kStage},
      {"rollout_log_probs", kLogProbs, kInSlice, kEvery, kInSteps, "rollout_log_probs"},
      {"log_probs", kLogProbs, kInSlice, kLastStage},
      {"ref_log_probs", kLogProbs, kInSlice, kLastStage},
      {"teacher_log_probs", kAnySlice, kInSlice, kStage, kRounded, "teacher_log_probs"},
      {"entropy", kSlice, kInSlice, kLastStage},
      {"ref_entropy", kAnySlice, kInSlice, kLastStage},
      {"values", kAnySlice, kInSlice, kLastStage},
      {"returns", kSlice, kInSlice, kLastStage},
      {"advantages", kSlice, kInSlice, kLastStage},
      {"kl", kSlice, kInSlice, kLastStage},
      {"opd_reverse_kl", kAnySlice, kInSlice, kStage, kRounded, "opd_reverse_kl"},
      {"adapter_slots", kValue, kAlways, kStage},
      {"max_seq_lens", kOptional, kAlways, kStage},
      {"weight_versions", kOptional, kAlways, kStage, kShort, "weight_versions"},
      {"rollout_top_p_token_ids", kOptional, kAlways, kStage, kLong, "rollout_top_p_token_ids"},
      {"rollout_top_p_token_offsets", kOptional, kAlways, kStage, kLong,
       "rollout_top_p_token_offsets"},
      {"rollout_routed_experts", kOptional, kAlways, kStage, kLong, "rollout_routed_experts"},
      {"rollout_indexer_topk", kOptional, kAlways, kStage, kLong, "rollout_indexer_topk"},
      {"local_raw_reward", kOptional, kWhereBoth, kEvery},
      {"prompt", kOptional, kInSlice, kStage, kShort, "prompt"},
      {"metadata", kOptional, kInSlice, kStage, kShort, "train_metadata"},
      {"source_names", kOptional, kInSlice, kStage, kShort, "metadata"},
      {"multimodal_train_inputs", kOptional, kInSlice, kStage, kThere, "multimodal_train_inputs"},
      {"raw_reward", kBatch, kAlways, kEvery},
      {"dynamic_global_batch_size", kRollout, kAlways, kEvery, kInMetadata,
       "dynamic_global_batch_size"},
      {"n_adapters", kRollout, kAlways, kStage},
      {"step_slots", kRollout, kAlways, kStage},
      {"step_adapter_names", kRollout, kAlways, kStage},
      {"step_adapter_batch_sizes", kRollout, kAlways, kStage},
      {"prompt_group_sizes", kRollout, kAlways, kStage, kInMetadata, "prompt_group_sizes"},
      {"partition", kBatch, kAlways, kStage},
      {"micro_batch_indices", kBatch, kAlways, kSchedule},
      {"num_microbatches", kBatch, kAlways, kSchedule},
      {"global_batch_sizes", kBatch, kAlways, kSchedule},
      {"num_rollouts", kBatch, kAlways, kSchedule},
  });
}();

/// The row of a column; null for one that is not known.
[[nodiscard]] constexpr const TrainColumn* train_column(std::string_view name) {
  const auto* const at = std::ranges::find(kTrainColumns, name, &TrainColumn::name);
  return at == kTrainColumns.end() ? nullptr : at;
}

}  // namespace rlreplay::foreign
