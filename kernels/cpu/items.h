#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/view.h"
#include "src/base/thread_pool.h"

/// How row operations are cut into items of work: by the shape alone.
namespace rlreplay::kernels::cpu {

/// Elements of an item: some microseconds of work, and a part of a second-level cache.
inline constexpr int64_t kItemElements = 16384;

/// Rows of an item where a row has `cols` elements.
[[nodiscard]] inline int64_t item_rows(int64_t cols) {
  return std::max<int64_t>(1, kItemElements / std::max<int64_t>(1, cols));
}

/// Calls body(range of rows, worker) for items that cover all rows.
template <class Body>
void each_item(ThreadPool& pool, int64_t rows, int64_t cols, Body&& body) {
  const int64_t step = item_rows(cols);
  pool.run(ceil_div(rows, step), [&](int64_t item, int worker) {
    body(Range{item * step, std::min(rows, (item + 1) * step)}, worker);
  });
}

/// Calls body(row, worker) for all rows.
template <class Body>
void each_row(ThreadPool& pool, int64_t rows, int64_t cols, Body&& body) {
  each_item(pool, rows, cols, [&](Range range, int worker) {
    for (int64_t row = range.begin; row < range.end; ++row) body(row, worker);
  });
}

/// How many tiles of `each_tile` a row of `cols` elements has; at least one.
[[nodiscard]] inline int64_t tile_columns(int64_t cols) {
  return std::max<int64_t>(1, ceil_div(cols, kItemElements));
}

/// Calls body(range of rows, range of columns, worker): rows longer than kItemElements are cut.
template <class Body>
void each_tile(ThreadPool& pool, int64_t rows, int64_t cols, Body&& body) {
  const int64_t chunks = tile_columns(cols);
  const int64_t step = item_rows(std::min(cols, kItemElements));
  pool.run(ceil_div(rows, step) * chunks, [&](int64_t item, int worker) {
    const int64_t row = item / chunks * step, col = item % chunks * kItemElements;
    body(Range{row, std::min(rows, row + step)}, Range{col, std::min(cols, col + kItemElements)},
         worker);
  });
}

}  // namespace rlreplay::kernels::cpu
