#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "format/foreign/pickle_writer.h"
#include "format/foreign/torch_file.h"
#include "format/train_data.h"

namespace rlreplay::replay {

/// The train dumps of one rollout, put together, as the content of one train unit a step.
struct ImportedTrain {
  int64_t rollout_id = 0;
  /// The data of each step: the groups are "3-0", "3-1", ...
  std::map<int64_t, std::shared_ptr<format::TrainData>> steps;  // its datasets own it, too
  /// For each file, the parts that the steps hold, by their places ("train/3-0/tokens/12").
  std::vector<foreign::Replacements> replacements;
  std::vector<foreign::Problem> findings;
  /// What this program's own export put beside the data of a step, by step.
  std::map<int64_t, std::vector<format::Dataset>> own;
  std::set<uint64_t> with_inputs;  // samples that were made from more than their tokens
  std::string layout;              // "dp 2, cp 2, 1 copy"
  bool cut = false;                // whether context parallelism cut responses
};

/// Puts the files of one rollout's training data together, step by step. `generated`: how many
/// samples the rollout has, where it is there. Errors: as foreign::assemble_train.
[[nodiscard]] ImportedTrain import_train(std::span<const foreign::TorchFile* const> files,
                                         std::optional<size_t> generated);

/// What no import of a file of training data gets past. Errors: as of import_train.
void check_train_file(const foreign::TorchFile& file);

}  // namespace rlreplay::replay
