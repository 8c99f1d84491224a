#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/dataset.h"
#include "format/train_data.h"
#include "src/base/layout.h"
#include "src/base/model_config.h"
#include "src/base/parameters.h"

/// What of a run each rank of a layout writes. A dump is cut by the layout that it began with,
/// whatever ranks compute what comes later.
namespace rlreplay::replay {

/// The rank's place along each axis, as a dataset of the group. Nothing of a layout of one rank.
[[nodiscard]] std::vector<format::Dataset> coordinate_datasets(const Layout& layout, int rank,
                                                               const std::string& group);

/// A rectangle of a parameter that a rank writes: `row` and `column` of its first element.
struct ParameterPart {
  int64_t row = 0, rows = 0;
  int64_t column = 0, columns = 0;
  friend bool operator==(const ParameterPart&, const ParameterPart&) = default;
};

/// What a rank writes of each parameter of the whole table, each element once among all ranks.
struct RankParts {
  std::vector<ParameterPart> weights;
  std::vector<ParameterPart> moments;
};

/// The parts of each parameter, in the order of the table, that a rank of the layout writes.
[[nodiscard]] RankParts rank_parts(const ModelConfig& config, const Layout& layout, int rank);

/// The rank's part of a step. A rank names the samples that it is dealt, and the tokens of them
/// that context parallelism leaves it; columns are written by the first tensor-parallel rank of the
/// last stage, scalars by all. `leaf`: positions that are never cut apart.
/// Shapes: `whole` without slices and without tokens of its own.
[[nodiscard]] format::TrainData rank_part(const format::TrainData& whole, const Layout& layout,
                                          int rank, int64_t leaf);

}  // namespace rlreplay::replay
