#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/view.h"
#include "src/events/events.h"

namespace rlreplay::engine {

/// A run of tokens of one sample that goes through the model together.
struct Chunk {
  uint64_t sample = 0;
  int64_t position = 0;  // of the first token
  std::span<const int32_t> tokens;
};

/// Rows of one forward pass: the chunks, one after the other.
struct RowBatch {
  Phase phase = Phase::kForward;  // in which the rows' forward is emitted
  std::vector<int32_t> ids;
  std::vector<int32_t> positions;
  std::vector<uint64_t> samples;
  std::vector<kernels::Range> chunks;  // rows of each chunk
  std::vector<kernels::Range> leaves;  // rows of each token leaf; chunks must begin on leaf borders

  int64_t rows() const { return static_cast<int64_t>(ids.size()); }
  RowCoordinates coordinates() const { return {samples.data(), positions.data()}; }
};

/// Errors: kInternal where a chunk begins inside a leaf and `leaf` is not 0 (no gradients wanted).
RowBatch make_row_batch(std::span<const Chunk> chunks, int64_t leaf);

}  // namespace rlreplay::engine
