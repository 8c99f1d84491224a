#pragma once

#include <cstdint>
#include <type_traits>

namespace rlreplay::kernels {

/// Pieces of d that cover n.
[[nodiscard]] constexpr int64_t ceil_div(int64_t n, int64_t d) { return (n + d - 1) / d; }

/// Half-open range of indices.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// Row-major matrix, not owned. Rows are `stride` elements apart, columns are adjacent.
template <class T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  Matrix() = default;
  Matrix(T* d, int64_t r, int64_t c) : Matrix(d, r, c, c) {}
  Matrix(T* d, int64_t r, int64_t c, int64_t s) : data(d), rows(r), cols(c), stride(s) {}
  operator Matrix<const T>() const requires(!std::is_const_v<T>) {
    return {data, rows, cols, stride};
  }
  T* row(int64_t r) const { return data + r * stride; }
  T& operator()(int64_t r, int64_t c) const { return data[r * stride + c]; }
};

/// Vectors of `dim` elements by token and head, not owned: the heads of a token are adjacent,
/// tokens are `stride` elements apart. One head makes it a matrix.
template <class T>
struct Heads {
  T* data = nullptr;
  int64_t tokens = 0;
  int64_t heads = 1;
  int64_t dim = 0;
  int64_t stride = 0;

  Heads() = default;
  Heads(T* d, int64_t t, int64_t h, int64_t n) : Heads(d, t, h, n, h * n) {}
  Heads(T* d, int64_t t, int64_t h, int64_t n, int64_t s)
      : data(d), tokens(t), heads(h), dim(n), stride(s) {}
  Heads(Matrix<T> m) : Heads(m.data, m.rows, 1, m.cols, m.stride) {}
  operator Heads<const T>() const requires(!std::is_const_v<T>) {
    return {data, tokens, heads, dim, stride};
  }
  T* at(int64_t token, int64_t head) const { return data + token * stride + head * dim; }
};

}  // namespace rlreplay::kernels
