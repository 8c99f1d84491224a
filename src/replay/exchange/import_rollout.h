#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "format/foreign/pickle_writer.h"
#include "format/foreign/torch_file.h"
#include "format/rollout_data.h"

namespace rlreplay::replay {

/// A rollout dump of slime, Miles or Relax as the content of a rollout unit.
struct ImportedRollout {
  int64_t rollout_id = 0;
  std::shared_ptr<format::RolloutData> data;  // its datasets own it, too
  /// Parts of the file that `data` holds, by their places below `owner`.
  foreign::Replacements replacements;
  std::vector<foreign::Problem> findings;
  /// What this program's own export put beside it.
  std::vector<format::Dataset> own;
  /// Raw rewards in the order of the file; empty where its samples say them besides.
  std::vector<std::optional<double>> raw_rewards;
  std::set<uint64_t> with_inputs;  // samples that were made from more than their tokens
};

/// Whether a sample's images or sound are there: a framework that has none writes an empty value.
[[nodiscard]] bool says_something(const foreign::Tree& tree, const foreign::Value* value);

/// The ids of a file's samples: their indices, or their places in the file where indices are
/// missing or do not tell them apart.
[[nodiscard]] std::vector<uint64_t> sample_ids(const std::vector<std::optional<int64_t>>& indices);

/// The file's tree loses the lists that `replacements` names and that nothing else refers to.
/// `owner` is what the places begin with ("rollout/3"). `reward_key` picks a number where a reward
/// is a dict. Errors: kUnsupported where the file is no rollout dump; kCorrupt, naming the sample.
[[nodiscard]] ImportedRollout import_rollout(foreign::TorchFile& file, const std::string& owner,
                                             std::string_view reward_key = {});

/// What no import of a rollout's file gets past. Errors: as of import_rollout, with any reward key.
void check_rollout_file(foreign::TorchFile& file);

}  // namespace rlreplay::replay
