#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "format/foreign/tree.h"

namespace rlreplay::foreign {

/// The samples of one rollout dump, in the order of the file. Texts view the file's tree, and the
/// columns of tokens stay there: they are nearly all of it. Source: slime, slime/utils/types.py,
/// class Sample.
struct RolloutFile {
  int64_t rollout_id = 0;
  std::vector<uint64_t> offsets = {0};        // [S + 1], of tokens
  std::vector<Value> tokens;                  // [S]: ids of int32's range
  std::vector<int64_t> response_lengths;      // [S]
  std::vector<Value> loss_mask;               // [S]: 0 and 1, one a token of the response, or None
  std::vector<Value> log_probs;               // [S]: floats, one a token of the response, or None
  std::vector<std::optional<int64_t>> index;  // [S]
  std::vector<std::optional<int64_t>> group_index;  // [S]
  std::vector<std::optional<int64_t>> trajectory;   // [S]: their rollout_id
  std::vector<Value> nucleus;                       // [S]: ids that top-p kept, or None
  std::vector<Value> nucleus_offsets;             // [S]: where each response token's begin, or None
  std::vector<std::optional<double>> reward;      // [S], raw
  std::vector<std::string_view> status;           // [S]
  std::vector<uint64_t> version_offsets = {0};    // [S + 1]
  std::vector<std::string_view> weight_versions;  // one a call of the engine

  size_t size() const { return response_lengths.size(); }
};

/// The batch of a rollout dump of slime, Miles or Relax. `reward_key` picks a number where a reward
/// is a dict. Run check_dump first: it names what is wrong with a sample.
/// Errors: kUnsupported where the file is no rollout dump; kCorrupt, naming the sample.
[[nodiscard]] RolloutFile read_rollout(const Tree& tree, Value root,
                                       std::string_view reward_key = {});

}  // namespace rlreplay::foreign
