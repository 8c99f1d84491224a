#include "src/engine/row_batch.h"

#include "kernels/order.h"
#include "src/base/error.h"

namespace rlreplay::engine {

RowBatch make_row_batch(std::span<const Chunk> chunks, int64_t leaf) {
  RowBatch out;
  for (const Chunk& chunk : chunks) {
    const int64_t first = out.rows();
    const int64_t count = static_cast<int64_t>(chunk.tokens.size());
    out.ids.insert(out.ids.end(), chunk.tokens.begin(), chunk.tokens.end());
    for (int64_t i = 0; i < count; ++i) {
      out.positions.push_back(static_cast<int32_t>(chunk.position + i));
    }
    out.samples.insert(out.samples.end(), chunk.tokens.size(), chunk.sample);
    out.chunks.push_back({first, first + count});
    if (leaf > 0) {
      check(chunk.position % leaf == 0, "a chunk with gradients must begin on a leaf border");
      kernels::append_token_leaves(first, count, leaf, out.leaves);
    }
  }
  return out;
}

}  // namespace rlreplay::engine
