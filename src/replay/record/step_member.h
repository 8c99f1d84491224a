#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/train_data.h"

namespace rlreplay::replay {

/// A sample of a step as one rank recorded it, and nothing of the rollout's.
struct StepMember {
  uint64_t id = 0;
  std::string unit;     // the path of the rank's
  uint64_t prompt = 0;  // the prompt's length, of whoever says it
  std::optional<uint64_t> length, prompt_length;
  std::optional<std::vector<int32_t>> tokens;     // of the whole sample
  std::optional<std::vector<uint8_t>> loss_mask;  // of the response
  std::optional<double> rewards;
  std::optional<uint64_t> trajectory_id, trajectory_tokens;
  std::optional<std::vector<double>> token_weights;  // of the whole sample
  /// Columns of the response, in the order of format::kTokenColumnFields.
  std::array<std::optional<std::vector<double>>, format::kTokenColumnFields.size()> columns;

  /// The bytes that `of` takes of the columns, as they were decoded.
  static uint64_t bytes_of(const format::TrainData& data, size_t row, uint64_t prompt);
  /// The sample in a row of a rank's data; `prompt` tokens of it are the prompt.
  static StepMember of(const format::TrainData& data, size_t row, uint64_t prompt,
                       std::string unit);
};

/// A field that two ranks recorded, and not alike.
struct MemberDifference {
  std::string field;
  std::optional<uint64_t> token;  // the first that differs, in the whole sample
  std::string to, from;           // what each says there
};

/// The one rule for a sample that several ranks hold: `to` takes what it lacks and `from` has; what
/// both have must be the same. Returns the first field that is not.
[[nodiscard]] std::optional<MemberDifference> merge(StepMember& to, StepMember&& from);

}  // namespace rlreplay::replay
