#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/view.h"
#include "src/base/sample.h"
#include "src/events/events.h"

namespace rlreplay::engine {

/// A run of tokens of one sample that goes through the model together.
struct Chunk {
  uint64_t sample = 0;
  int64_t position = 0;  // of the first token
  std::span<const int32_t> tokens;
};

/// Rows [own, own + count) of a context-parallel rank, which are rows of all from `whole` on.
struct RowRunOfRank {
  int64_t own = 0;
  int64_t whole = 0;
  int64_t count = 0;
};

/// Where the rows of a batch whose samples are cut stand among those of all ranks, which are the
/// samples one after the other.
struct ContextRows {
  std::vector<std::vector<RowRunOfRank>> runs;  // by rank
  std::vector<kernels::Range> samples;          // rows of each sample, of all ranks' rows
  int64_t rows = 0;                             // of all ranks
  int64_t longest = 0;                          // of the rank that has the most
};

/// Rows of one forward pass: the chunks, one after the other.
struct RowBatch {
  Phase phase = Phase::kForward;  // in which the rows' forward is emitted
  std::vector<int32_t> ids;
  std::vector<int32_t> positions;
  std::vector<uint64_t> samples;
  std::vector<kernels::Range> chunks;  // rows of each chunk
  std::vector<kernels::Range> leaves;  // rows of each token leaf; chunks must begin on leaf borders
  size_t chunks_a_sample = 1;          // of a batch of samples
  std::optional<ContextRows> context;  // where samples are cut

  int64_t rows() const { return static_cast<int64_t>(ids.size()); }
  RowCoordinates coordinates(int64_t first = 0) const {
    return {samples.data() + first, positions.data() + first};
  }
};

/// Errors: kInternal where a chunk begins inside a leaf and `leaf` is not 0 (no gradients wanted).
[[nodiscard]] RowBatch make_row_batch(std::span<const Chunk> chunks, int64_t leaf);

/// The batch of whole samples, or of what a context-parallel rank (`cp` of `size`) holds of them:
/// two chunks a sample. `leaf` of 0: no gradients wanted; samples are then cut between leaves of
/// the usual size.
[[nodiscard]] RowBatch batch_of_samples(std::span<const Sample* const> samples, int64_t leaf,
                                        int cp = 0, int size = 1);

}  // namespace rlreplay::engine
