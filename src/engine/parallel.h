#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/matmul.h"
#include "src/base/buffer.h"
#include "src/engine/row_batch.h"
#include "src/engine/runtime.h"

/// What the ranks of a step tell each other inside of a layer and of the head. With one rank each
/// is the operation alone: nothing is copied.
namespace rlreplay::engine {

/// The rows of the residual stream that a rank holds, of `rows`: with sp a part of them.
[[nodiscard]] kernels::Range stream_rows(const Runtime& runtime, int64_t rows);

/// Fills the rows of [rows, C] that other ranks hold of the stream.
void gather_stream(const Runtime& runtime, kernels::Matrix<float> whole);

/// The whole of what `own` is the stream's rows of: `own` itself, or gathered into `room`.
[[nodiscard]] kernels::Matrix<const float> whole_stream(const Runtime& runtime,
                                                        kernels::Matrix<const float> own,
                                                        int64_t rows, Buffer<float>& room);

/// y = x w (+ residual), each rank having some segments of the inner axis: subtrees are moved, then
/// one tree over them, then the residual. Shapes: x [T, K of the rank], y and residual rows `own`
/// of [T, N].
void row_parallel(const Runtime& runtime, kernels::Matrix<const float> x,
                  const kernels::PackedWeight& w, const kernels::DotOrder& order,
                  kernels::Matrix<const float> residual, kernels::Matrix<float> y,
                  kernels::Range own);

/// The ranks' columns side by side. Shapes: own [T, n] of equal n; result [T, n times tp] in
/// `room`. Not to be called with one rank of tp.
[[nodiscard]] kernels::Matrix<float> gather_columns(const Runtime& runtime,
                                                    kernels::Matrix<const float> own,
                                                    Buffer<float>& room);

/// The ranks' columns side by side, of an axis of `n` that is cut as evenly as it goes. Shapes: own
/// [T, its part]; result [T, n] in `room`. Not to be called with one rank of tp.
[[nodiscard]] kernels::Matrix<float> gather_axis(const Runtime& runtime,
                                                 kernels::Matrix<const float> own, int64_t n,
                                                 Buffer<float>& room);

/// Rows of all context-parallel ranks in the order of positions.
/// Shapes: own [T, n]; result [all rows, n] in `room`.
[[nodiscard]] kernels::Matrix<float> gather_context(const Runtime& runtime,
                                                    const ContextRows& context,
                                                    kernels::Matrix<const float> own,
                                                    Buffer<float>& room);

/// Items of all ranks of a group, in its order; how many each has may differ.
template <class T>
struct Gathered {
  std::vector<T> items;
  std::vector<size_t> first;  // of each rank
};
template <class T>
[[nodiscard]] Gathered<T> gather_items(Group& group, std::span<const T> own) {
  const auto ranks = static_cast<size_t>(group.size());
  std::vector<int64_t> counts(ranks);
  const auto count = static_cast<int64_t>(own.size());
  group.gather(std::as_bytes(std::span(&count, 1)), std::as_writable_bytes(std::span(counts)));
  const auto most = static_cast<size_t>(*std::ranges::max_element(counts));
  std::vector<T> padded(own.begin(), own.end()), all(most * ranks);
  padded.resize(most);
  group.gather(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)));
  Gathered<T> out;
  for (size_t r = 0; r < ranks; ++r) {
    out.first.push_back(out.items.size());
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(r * most);
    out.items.insert(out.items.end(), begin, begin + counts[r]);
  }
  return out;
}

}  // namespace rlreplay::engine
