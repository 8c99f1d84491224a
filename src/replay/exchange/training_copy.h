#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "format/foreign/train_shard.h"

namespace rlreplay::replay {

/// The cell of a column of training that holds something; nothing where it is absent or None.
[[nodiscard]] std::optional<foreign::Value> copy_of(const foreign::TrainShard& shard, size_t row,
                                                    std::string_view column);

/// Whether the shard has the column, even of Nones alone: it says nothing of one that it lacks.
[[nodiscard]] bool repeats(const foreign::TrainShard& shard, std::string_view column);

/// Whether a sample without an id of its rollout has its index there, as Miles says.
[[nodiscard]] bool has_index_as_id(const foreign::TorchFile& rollout);

/// A value in a few words: of numbers how many there are.
[[nodiscard]] std::string size_text(const foreign::Tree& tree, foreign::Value value);

/// The problem that a sample's training says `found`, and the rollout `said`, at `place` of a cell.
[[nodiscard]] foreign::Problem rollout_mismatch(const foreign::TrainShard& shard,
                                                std::string_view column, int64_t sample,
                                                const std::string& place, const std::string& found,
                                                const std::string& said);

}  // namespace rlreplay::replay
