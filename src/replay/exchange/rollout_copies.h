#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/foreign/torch_file.h"
#include "src/replay/exchange/import_rollout.h"

namespace rlreplay::replay {

/// What the training data of a rollout repeats of its samples and no column of a train unit holds:
/// raw rewards, nuclei, experts, a teacher's log-probabilities.
class RolloutCopies {
 public:
  /// A rollout that was read from a file.
  void add(const ImportedRollout& rollout, const std::string& path);

  /// What the files of a rollout's training say otherwise: a rollout-mismatch of each column and
  /// sample. What either has not, or has in another length, is not compared. Errors: those of
  /// TorchFile, which the rollout's is again where training has copies of its long columns.
  std::vector<foreign::Problem> compare(int64_t rollout,
                                        std::span<const foreign::TorchFile* const> files) const;

 private:
  struct Rollout {
    std::string path;
    std::vector<std::optional<double>> rewards;  // in the order of the file
  };
  std::map<int64_t, Rollout> rollouts_;
};

}  // namespace rlreplay::replay
