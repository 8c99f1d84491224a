#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/foreign/torch_file.h"
#include "format/foreign/train_shard.h"
#include "src/base/hash.h"
#include "src/replay/exchange/import_rollout.h"
#include "src/replay/exchange/metadata_copies.h"
#include "src/replay/exchange/said_columns.h"

namespace rlreplay::replay {

/// A replica-mismatch for each file of a rollout's training that says other raw rewards of the
/// rollout than the first file, of other samples. It is for a rollout that itself is not there.
[[nodiscard]] std::vector<foreign::Problem> compare_raw_rewards(
    std::span<const foreign::TorchFile* const> files);

/// What the training data of a rollout repeats of its samples and no column of a train unit holds:
/// raw rewards, nuclei, experts, versions of the weights, how a sample ended.
class RolloutCopies {
 public:
  /// A rollout that was read from a file.
  void add(const ImportedRollout& rollout, const foreign::TorchFile& file);

  /// What the files of a rollout's training say otherwise: a rollout-mismatch of each column and
  /// sample. What the rollout does not say, be it as None, or no row of a file, is not compared. Of
  /// a rollout that was not read: compare_raw_rewards. Errors: those of TorchFile, which the
  /// rollout's is again where training has copies of its long columns.
  [[nodiscard]] std::vector<foreign::Problem> compare(
      int64_t rollout, std::span<const foreign::TorchFile* const> files) const;

 private:
  struct Rollout {
    std::string path;
    std::vector<std::optional<double>> rewards;  // in the order of the file
    SaidColumns said;
    MetadataCopies metadata;
    std::vector<bool> unrewarded;  // samples that say that they have none
    /// Rewards, and None, of those of which the file says either, by index.
    std::map<int64_t, std::optional<double>> reward_of;
    /// The hashes of what columns of training repeat of each sample, by its index.
    std::map<int64_t, std::map<std::string_view, Hash>> hashes;
  };

  static void compare_local_rewards(const foreign::TrainShard& shard, const Rollout& rollout,
                                    std::vector<foreign::Problem>& problems);
  [[nodiscard]] static bool are_known_to_agree(const foreign::TrainShard& shard,
                                               const Rollout& rollout, std::string_view column);

  std::map<int64_t, Rollout> rollouts_;
};

}  // namespace rlreplay::replay
