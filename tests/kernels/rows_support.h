#pragma once

#include <string>
#include <vector>

#include "tests/kernels/sets.h"
#include "tests/kernels/support.h"

/// What the tests of row operations share.
namespace rlreplay::kernels::test {

/// Around whole vectors of every target, the lanes and the blocks of `row`.
inline const std::vector<int64_t>& odd_sizes() {
  static const std::vector<int64_t> sizes = {1,   2,   31,  32,   33,   48,   63,  64,
                                             100, 643, 896, 1023, 1024, 1025, 2049};
  return sizes;
}

inline const std::vector<int64_t>& row_counts() {
  static const std::vector<int64_t> counts = {0, 1, 2, 5, 17};
  return counts;
}

/// A matrix of hard numbers. Those up to 1e4 overflow nothing that is squared and summed.
inline Guarded<float> awkward_matrix(Random& random, int64_t rows, int64_t cols) {
  Guarded<float> out(rows, cols, 1 + random.below(7), random.below(9));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) out(r, c) = awkward(random);
  }
  return out;
}

inline std::vector<float> awkward_vector(Random& random, int64_t n) {
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = awkward(random);
  return out;
}

/// Heads [first, first + heads) of size `dim` inside the rows of a matrix.
template <class T>
Heads<T> heads_of(Matrix<T> m, int64_t first, int64_t heads, int64_t dim) {
  return {m.data + first * dim, m.rows, heads, dim, m.stride};
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// The rows in another order and number: row i of the result is row pick[i].
template <class T>
Guarded<T> pick_rows(const Guarded<T>& from, const std::vector<int64_t>& pick, int64_t cols) {
  Guarded<T> out(static_cast<int64_t>(pick.size()), cols, 2, 4);
  for (size_t i = 0; i < pick.size(); ++i) {
    for (int64_t c = 0; c < cols; ++c) {
      out(static_cast<int64_t>(i), c) = from.view()(pick[i], c);
    }
  }
  return out;
}

}  // namespace rlreplay::kernels::test
