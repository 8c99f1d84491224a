#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "format/foreign/torch_file.h"
#include "format/foreign/train_columns.h"

namespace rlreplay::replay {

/// Which columns of training each sample of a rollout says, and of which it says that there is
/// nothing: frameworks write None into a field that they have no value for.
class SaidColumns {
 public:
  explicit SaidColumns(const foreign::TorchFile& rollout);

  /// The columns that training has of a sample of which the rollout says None, or lacks what its
  /// other samples have: a rollout-mismatch each. Errors: those of TrainShard.
  [[nodiscard]] std::vector<foreign::Problem> compare(const foreign::TorchFile& training) const;

 private:
  using Columns = std::bitset<foreign::kTrainColumns.size()>;

  [[nodiscard]] bool needs_said(const foreign::Tree& tree, foreign::Value copy,
                                const foreign::TrainColumn& column) const;

  /// Whether training says an id of a sample that has none, and it is none that a trainer gives.
  [[nodiscard]] bool names_nobody(foreign::Value id, int64_t index) const;

  std::set<int64_t> ids_;          // of trajectories
  std::optional<size_t> counted_;  // samples, where the trainer counts those without an id
  Columns named_, held_;           // by any sample, be it as None; with a value
  /// The columns that a sample says, by its index; empty where one is missing or occurs twice.
  std::map<int64_t, Columns> there_;
};

}  // namespace rlreplay::replay
