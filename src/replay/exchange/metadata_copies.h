#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "format/foreign/torch_file.h"
#include "format/foreign/train_shard.h"

namespace rlreplay::replay {

/// What a rollout's metadata says of all its samples that training repeats: integers, by column.
class MetadataCopies {
 public:
  explicit MetadataCopies(const foreign::TorchFile& rollout);

  /// A rollout-mismatch for each column that training says otherwise, where both of them say it.
  [[nodiscard]] std::vector<foreign::Problem> compare(const foreign::TrainShard& training) const;

 private:
  std::map<std::string_view, std::vector<int64_t>> said_;
};

}  // namespace rlreplay::replay
