#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/digest.h"
#include "src/base/rows_view.h"

/// Digests of whole tensors, block by block in plain loops (docs/numerics.md section 8).
namespace rlreplay::test {

/// Row i has the coordinates at[i]: its number in a parameter, its sample and position among
/// tokens. `cuts`: columns at which blocks begin, 0 not among them; `column`: whether blocks are
/// told theirs.
inline Digest digest_of_rows(const TensorId& id, const RowsView& view,
                             std::span<const std::vector<uint64_t>> at,
                             std::span<const int64_t> cuts, bool column) {
  std::vector<int64_t> borders = {0};
  borders.insert(borders.end(), cuts.begin(), cuts.end());
  borders.push_back(view.cols);
  Digest out;
  for (int64_t row = 0; row < view.rows; ++row) {
    for (size_t i = 0; i + 1 < borders.size(); ++i) {
      std::vector<uint64_t> key = at[static_cast<size_t>(row)];
      if (column) key.push_back(static_cast<uint64_t>(borders[i]));
      const auto count = static_cast<size_t>(borders[i + 1] - borders[i]);
      out += digest_block(id, key, {view.at(row, borders[i]), count * size_of(view.dtype)});
    }
  }
  return out;
}

/// A scalar per token, at[i] its sample and position: a block is what a sample has of `leaf`
/// positions.
inline Digest digest_of_leaves(const TensorId& id, const RowsView& view,
                               std::span<const std::vector<uint64_t>> at, uint64_t leaf) {
  const auto key_of = [&](size_t i) { return std::vector{at[i][0], at[i][1] / leaf}; };
  Digest out;
  for (size_t begin = 0, end = 0; begin < at.size(); begin = end) {
    while (end < at.size() && key_of(end) == key_of(begin)) ++end;
    out += digest_block(
        id, key_of(begin),
        {view.at(static_cast<int64_t>(begin), 0), (end - begin) * size_of(view.dtype)});
  }
  return out;
}

}  // namespace rlreplay::test
