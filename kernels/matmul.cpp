#include "kernels/matmul.h"

#include <bit>

#include "src/base/error.h"

namespace rlreplay::kernels {

PackedShape packed_shape(const PackWeight& op) {
  check(!op.parts.empty(), "a weight to pack has no parts");
  int64_t rows = 0;
  for (const auto& part : op.parts) {
    check(part.cols == op.parts.front().cols, "stacked weights must have equally many columns");
    rows += part.rows;
  }
  const int64_t cols = op.parts.front().cols;
  return op.inner == Inner::kColumns ? PackedShape{cols, rows} : PackedShape{rows, cols};
}

void check_shapes(const Matmul& op) {
  check(op.w != nullptr && op.w->panel > 0, "the weight of a product is not packed");
  check(op.x.cols == op.w->k, "x and the weight differ in the inner axis");
  check(op.y.rows == op.x.rows && op.y.cols == op.w->n, "y has not the shape of the product");
  check(op.residual.data == nullptr ||
            (op.residual.rows == op.y.rows && op.residual.cols == op.y.cols),
        "the residual has not the shape of y");
  check(op.order != nullptr && std::has_single_bit(op.order->segments.size()),
        "the number of segments must be a power of two");
  for (const auto& segment : op.order->segments) {
    for (const Range& range : segment) {
      check(0 <= range.begin && range.begin <= range.end && range.end <= op.w->k,
            "a segment lies outside the inner axis");
    }
  }
}

void check_shapes(const CombineSegments& op) {
  check(std::has_single_bit(op.parts.size()), "the number of parts must be a power of two");
  for (const auto& part : op.parts) {
    check(part.rows == op.y.rows && part.cols == op.y.cols, "a part has not the shape of y");
  }
  check(op.residual.data == nullptr ||
            (op.residual.rows == op.y.rows && op.residual.cols == op.y.cols),
        "the residual has not the shape of y");
}

void check_shapes(const MatmulTokens& op) {
  check(op.dy.rows == op.x.rows, "dy and x differ in the number of tokens");
  check(op.dw.sum.rows == op.dy.cols && op.dw.sum.cols == op.x.cols,
        "dw has not the shape of the weight");
  for (const Range& leaf : op.leaves) {
    check(0 <= leaf.begin && leaf.begin <= leaf.end && leaf.end <= op.x.rows,
          "a token leaf lies outside the batch");
  }
}

}  // namespace rlreplay::kernels
