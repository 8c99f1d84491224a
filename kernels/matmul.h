#pragma once

#include <cstdint>
#include <span>

#include "kernels/order.h"
#include "kernels/token_sum.h"
#include "kernels/view.h"
#include "src/base/buffer.h"

namespace rlreplay::kernels {

/// Which axis of a weight is the inner one of the product.
enum class Inner {
  kColumns,  // y = x w^T: the forward product, inner axis = input features
  kRows,     // dx = dy w: the backward product, inner axis = output features
};

/// A weight in the order in which a kernel set reads it; changes once a step, is packed once.
/// Only the kernel set that packed it can read it.
struct PackedWeight {
  Buffer<float> data;
  int64_t k = 0;      // inner axis
  int64_t n = 0;      // outer axis: columns of the result
  int64_t panel = 0;  // columns that are stored together; 0 before packing
};

/// Packs the stacked weights `parts`: (q, k, v) or (gate, up) become one product.
/// Shapes: parts [out_i, in], all with the same `in`; kColumns: n = sum out_i, k = in;
/// kRows: n = in, k = sum out_i.
struct PackWeight {
  std::span<const Matrix<const float>> parts;
  Inner inner = Inner::kColumns;
};

/// The inner axis k and the outer axis n of what is packed.
struct PackedShape {
  int64_t k = 0;
  int64_t n = 0;
};

/// Errors: kInternal where `op` has no parts, or parts of different numbers of columns.
[[nodiscard]] PackedShape packed_shape(const PackWeight& op);

/// y = x w (+ bias) (+ residual), w as packed.
/// Shapes: x [M, K], w [K, N], y [M, N], bias [N] or null, residual [M, N] or no data (may be y).
/// Order: `order` over K; then + bias, then + residual, each one rounded addition. A rank that
/// holds a part of the segments gives neither, and finishes with CombineSegments.
struct Matmul {
  Matrix<const float> x;
  const PackedWeight* w = nullptr;
  const DotOrder* order = nullptr;
  const float* bias = nullptr;
  Matrix<const float> residual;
  Matrix<float> y;
};

/// The rest of a product whose segments lie on several ranks: y = tree(parts) (+ bias)
/// (+ residual).
/// Shapes: parts[r] [M, N], the ranks' subtrees in order, a power of two of them; else as Matmul.
/// Order: perfect binary tree over the parts, then + bias, then + residual.
struct CombineSegments {
  std::span<const Matrix<const float>> parts;
  const float* bias = nullptr;
  Matrix<const float> residual;
  Matrix<float> y;
};

/// The weight gradient: dw += sum over leaves of dy^T x.
/// Shapes: dy [M, N], x [M, K], dw.sum [N, K]; leaves: ranges of rows, tokens [jC, (j+1)C) of one
/// sample each (append_token_leaves); rows in no leaf (padding) contribute nothing.
/// Order: in a leaf one fma chain from +0 over ascending rows; each leaf's value is one
/// contribution to the TokenSum. An empty leaf contributes nothing.
/// Without `accumulate`, dw = that sum: what it held before does not matter.
struct MatmulTokens {
  Matrix<const float> dy;
  Matrix<const float> x;
  std::span<const Range> leaves;
  TokenSum dw;
  bool accumulate = true;
};

/// Every kernel set begins with this.
/// Errors: kInternal where shapes do not fit together, a weight is not packed, a number of segments
/// or parts is no power of two, or a segment or leaf lies outside of its axis.
void check_shapes(const Matmul& op);
void check_shapes(const CombineSegments& op);
void check_shapes(const MatmulTokens& op);

}  // namespace rlreplay::kernels
