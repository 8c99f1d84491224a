#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/foreign/float_column.h"
#include "format/foreign/torch_file.h"

namespace rlreplay::foreign {

/// The training data of one rollout, put together from all its files: what one process without any
/// parallelism would hold.
struct TrainBatch {
  int64_t rollout_id = 0;
  std::vector<int64_t> sample_index;    // [S], ascending
  std::vector<uint64_t> offsets = {0};  // [S + 1], of tokens
  std::vector<int32_t> tokens;
  std::vector<int64_t> response_lengths;     // [S]
  std::vector<uint64_t> mask_offsets = {0};  // [S + 1]
  std::vector<uint8_t> loss_mask;
  std::vector<double> rewards;                            // [S], as the trainer normalised them
  std::vector<std::optional<int64_t>> trajectory;         // [S]: their rollout_ids
  std::vector<std::optional<int64_t>> trajectory_tokens;  // [S]: their rollout_mask_sums
  std::vector<FloatColumn> columns;  // log_probs, advantages, ...: those that were recorded

  int64_t shards = 0;    // of data parallelism
  int64_t cp_size = 1;   // of context parallelism
  int64_t replicas = 1;  // files that hold the same samples and slices (tensor, pipeline)

  /// Found and settled: replica-mismatch, replica-missing, partial-column, padding-removed.
  std::vector<Problem> findings;

  size_t size() const { return sample_index.size(); }
  const FloatColumn* column(std::string_view name) const;
};

/// Puts the train dumps of one rollout together, whatever framework and layout wrote them. Slices
/// of context parallelism are joined, replicas compared (replicas.h) and dropped: of copies that
/// differ that of a pipeline's last stage is taken, of its ranks the lowest. Where the files do not
/// say how a response was cut, the lengths decide. Errors: kIncomplete where a rank's file is
/// missing, kCorrupt where the pieces do not fit, kUnsupported where a file is no train dump.
[[nodiscard]] TrainBatch assemble_train(std::span<const TorchFile* const> files);

}  // namespace rlreplay::foreign
