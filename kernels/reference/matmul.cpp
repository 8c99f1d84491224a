#include "kernels/matmul.h"

#include <algorithm>

#include "kernels/contract.h"
#include "kernels/reference/reference.h"

namespace rlreplay::kernels::reference {
namespace {

using contract::Scalar;

// A packed weight is the matrix [K, N] here.
void pack_weight(const PackWeight& op, PackedWeight& out, ThreadPool&) {
  const PackedShape shape = packed_shape(op);
  out.k = shape.k;
  out.n = shape.n;
  out.panel = std::max<int64_t>(shape.n, 1);
  out.data.resize(static_cast<size_t>(shape.k * shape.n));
  int64_t stacked = 0;
  for (const auto& part : op.parts) {
    for (int64_t row = 0; row < part.rows; ++row, ++stacked) {
      for (int64_t col = 0; col < part.cols; ++col) {
        const int64_t k = op.inner == Inner::kColumns ? col : stacked;
        const int64_t n = op.inner == Inner::kColumns ? stacked : col;
        out.data[static_cast<size_t>(k * out.n + n)] = part(row, col);
      }
    }
  }
}

float leaf_sum(const float* x, const PackedWeight& w, int64_t n, Range leaf) {
  float sum = 0;
  for (int64_t k = leaf.begin; k < leaf.end; ++k) {
    sum = Scalar::fma(x[k], w.data[static_cast<size_t>(k * w.n + n)], sum);
  }
  return sum;
}

float segment_sum(const float* x, const PackedWeight& w, int64_t n,
                  const std::vector<Range>& ranges) {
  float sum = 0;
  for (const Range& range : ranges) {
    for (int64_t k = range.begin; k < range.end; k += kDotLeaf) {
      sum = Scalar::add(sum, leaf_sum(x, w, n, {k, std::min(range.end, k + kDotLeaf)}));
    }
  }
  return sum;
}

/// The perfect binary tree; `value(i)` is its leaf i.
template <class Value>
float tree(size_t first, size_t count, const Value& value) {
  if (count == 1) return value(first);
  return Scalar::add(tree(first, count / 2, value), tree(first + count / 2, count / 2, value));
}

/// What follows the tree: + bias, then + residual.
float finish(float sum, const float* bias, const Matrix<const float>& residual, int64_t row,
             int64_t col) {
  if (bias != nullptr) sum = Scalar::add(sum, bias[col]);
  if (residual.data != nullptr) sum = Scalar::add(sum, residual(row, col));
  return sum;
}

void matmul(const Matmul& op, ThreadPool&) {
  check_shapes(op);
  const auto& segments = op.order->segments;
  for (int64_t m = 0; m < op.y.rows; ++m) {
    for (int64_t n = 0; n < op.y.cols; ++n) {
      const float sum = tree(0, segments.size(), [&](size_t s) {
        return segment_sum(op.x.row(m), *op.w, n, segments[s]);
      });
      op.y(m, n) = finish(sum, op.bias, op.residual, m, n);
    }
  }
}

void combine_segments(const CombineSegments& op, ThreadPool&) {
  check_shapes(op);
  for (int64_t m = 0; m < op.y.rows; ++m) {
    for (int64_t n = 0; n < op.y.cols; ++n) {
      const float sum = tree(0, op.parts.size(), [&](size_t r) { return op.parts[r](m, n); });
      op.y(m, n) = finish(sum, op.bias, op.residual, m, n);
    }
  }
}

void matmul_tokens(const MatmulTokens& op, ThreadPool&) {
  check_shapes(op);
  const TokenRounding rounding = token_rounding(op.dw);
  for (int64_t n = 0; n < op.dy.cols && !op.accumulate; ++n) {
    for (int64_t k = 0; k < op.x.cols; ++k) op.dw.sum(n, k) = 0;
  }
  for (const Range& leaf : op.leaves) {
    if (leaf.size() == 0) continue;
    for (int64_t n = 0; n < op.dy.cols; ++n) {
      for (int64_t k = 0; k < op.x.cols; ++k) {
        float sum = 0;
        for (int64_t t = leaf.begin; t < leaf.end; ++t) {
          sum = Scalar::fma(op.dy(t, n), op.x(t, k), sum);
        }
        contribute(rounding, sum, op.dw, n, k);
      }
    }
  }
}

}  // namespace

void add_matmul(KernelSet& set) {
  set.pack_weight = pack_weight;
  set.matmul = matmul;
  set.combine_segments = combine_segments;
  set.matmul_tokens = matmul_tokens;
}

}  // namespace rlreplay::kernels::reference
