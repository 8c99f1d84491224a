#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/boxes.h"
#include "format/dataset.h"
#include "format/dump_reader.h"
#include "format/held_bytes.h"
#include "format/sample_columns.h"

namespace rlreplay::format {

/// Parts of samples, where a rank holds no whole ones: consecutive tokens, in the order in which
/// their elements are stored.
struct TokenSlices {
  std::vector<uint64_t> offsets = {0};  // [S + 1], of slices
  std::vector<Interval> slices;         // of the sample's tokens
  std::vector<uint64_t> lengths;        // [S]: tokens of the whole sample
  friend bool operator==(const TokenSlices&, const TokenSlices&) = default;
};

/// What one rank trained on in one step, and what it computed: S samples in the order in which they
/// were packed, T tokens of theirs, prompts included. What was not recorded is absent, never zero.
struct TrainData {
  std::vector<uint64_t> sample_id;                     // [S], joins the rollout
  std::vector<uint64_t> offsets = {0};                 // [S + 1], of stored tokens
  std::optional<TokenSlices> slices;                   // where samples are not whole
  std::optional<std::vector<int32_t>> tokens;          // [T], where no rollout unit holds them
  std::optional<std::vector<uint32_t>> prompt_length;  // [S], as tokens
  std::optional<std::vector<uint32_t>> micro_batch;    // [S]
  std::optional<Column<uint8_t>> loss_mask;            // [T]
  std::optional<Column<double>> rewards;               // [S], as the trainer shaped them
  std::optional<Column<uint64_t>> trajectory_id;       // [S], of samples that count as one together
  std::optional<Column<uint64_t>> trajectory_tokens;   // [S], unmasked ones of it
  std::optional<std::vector<double>> token_weights;    // [T], in the loss
  std::optional<TokenFloats> log_probs;                // of the policy in this step's forward pass
  std::optional<TokenFloats> old_log_probs;            // of the policy before the rollout's updates
  std::optional<TokenFloats> ref_log_probs;
  std::optional<TokenFloats> teacher_log_probs;
  std::optional<TokenFloats> rollout_log_probs;  // the sampler's, as the trainer got them
  std::optional<TokenFloats> entropy;
  std::optional<TokenFloats> ref_entropy;
  std::optional<TokenFloats> advantages;
  std::optional<TokenFloats> returns;
  std::optional<TokenFloats> values;          // a critic's, before the rollout's updates
  std::optional<TokenFloats> current_values;  // in this step's forward pass
  std::optional<TokenFloats> kl;
  std::optional<TokenFloats> reverse_kl;   // of on-policy distillation
  std::optional<TokenFloats> policy_kl;    // old less current log-probability, as the loss took it
  std::optional<TokenFloats> policy_loss;  // the policy's term before the reduction
  std::optional<NamedColumns> scalars;     // one row: loss, grad_norm, lr, ...

  size_t size() const { return sample_id.size(); }
  /// Tokens of a whole sample, whatever of it is stored.
  uint64_t length(size_t sample) const {
    return slices ? slices->lengths[sample] : offsets[sample + 1] - offsets[sample];
  }
  friend bool operator==(const TrainData&, const TrainData&) = default;
};

/// The columns of floats by their names in the dump, causes before effects.
struct TokenColumnField {
  std::string_view name;
  std::optional<TokenFloats> TrainData::*column;
};
inline constexpr auto kTokenColumnFields = std::to_array<TokenColumnField>({
    {"rollout_log_probs", &TrainData::rollout_log_probs},
    {"old_log_probs", &TrainData::old_log_probs},
    {"ref_log_probs", &TrainData::ref_log_probs},
    {"teacher_log_probs", &TrainData::teacher_log_probs},
    {"ref_entropy", &TrainData::ref_entropy},
    {"values", &TrainData::values},
    {"current_values", &TrainData::current_values},
    {"kl", &TrainData::kl},
    {"reverse_kl", &TrainData::reverse_kl},
    {"advantages", &TrainData::advantages},
    {"returns", &TrainData::returns},
    {"log_probs", &TrainData::log_probs},
    {"entropy", &TrainData::entropy},
    {"policy_kl", &TrainData::policy_kl},
    {"policy_loss", &TrainData::policy_loss},
});

/// `use(name, member, axis)` for all columns but ids, offsets and slices, causes before effects: a
/// column that stands here is written, read, joined, compared, shown, imported and exported.
template <class Use>
void for_each_train_column(Use use) {
  use("prompt_length", &TrainData::prompt_length, Axis::kSample);
  use("tokens", &TrainData::tokens, Axis::kToken);
  use("micro_batch", &TrainData::micro_batch, Axis::kSample);
  use("loss_mask", &TrainData::loss_mask, Axis::kResponse);
  use("rewards", &TrainData::rewards, Axis::kSample);
  use("trajectory_id", &TrainData::trajectory_id, Axis::kSample);
  use("trajectory_tokens", &TrainData::trajectory_tokens, Axis::kSample);
  use("token_weights", &TrainData::token_weights, Axis::kToken);
  for (const auto& [name, column] : kTokenColumnFields) use(name, column, Axis::kResponse);
}

/// The datasets of a train unit's group (`3-0`). They share `data`.
/// Errors: kUsage where lengths do not agree.
[[nodiscard]] std::vector<Dataset> to_datasets(std::shared_ptr<const TrainData> data,
                                               const std::string& group);

/// Reads one group of a train unit; `held` counts it where others are held with it.
/// Errors: FormatError, kMeaning where the datasets do not agree with one another.
[[nodiscard]] TrainData read_train_data(const DumpReader& dump, const UnitReader& unit,
                                        const std::string& group, HeldBytes* held = nullptr);

}  // namespace rlreplay::format
