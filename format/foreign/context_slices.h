#pragma once

#include <array>
#include <cstdint>

namespace rlreplay::foreign {

/// Positions [begin, end) of a response.
struct ResponseRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

/// The two parts of a response that a rank of context parallelism holds, one behind the other in
/// its slice; either may be empty.
///
/// The sequence is cut into 2 * cp_size chunks and rank r owns chunks r and 2 * cp_size - 1 - r, so
/// that causal attention costs every rank the same. The log-probability of a token belongs to the
/// position before it.
/// Shapes: `total` tokens, of which the last `response` are the response; `padded` is the length
/// that is cut: `total`, or the row length of a padded layout.
/// Source: Megatron-LM, get_batch_on_this_cp_rank (megatron/training/utils.py).
[[nodiscard]] std::array<ResponseRange, 2> response_slices(int64_t total, int64_t response,
                                                           int64_t padded, int64_t cp_size,
                                                           int64_t cp_rank);

}  // namespace rlreplay::foreign
