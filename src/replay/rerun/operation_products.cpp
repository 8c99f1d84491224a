#include <algorithm>

#include "src/engine/model.h"
#include "src/engine/shard.h"
#include "src/replay/rerun/operation_forms.h"

namespace rlreplay::replay {
namespace {

using engine::Op;
using kernels::Inner;
using kernels::KernelSet;
using kernels::Matrix;

/// The chains of a sum, as the engine has them for this product (docs/numerics.md section 2).
const kernels::DotOrder& forward_order(const engine::Orders& orders, Op op) {
  if (op == Op::kOutput) return orders.output;
  return op == Op::kDown ? orders.down : orders.hidden;
}

const kernels::DotOrder& backward_order(const engine::Orders& orders, Op op) {
  if (op == Op::kQkv) return orders.qkv_dx;
  return op == Op::kGateUp ? orders.gate_up_dx : orders.hidden;
}

/// Rows side by side, as a fused product reads them.
std::vector<float> beside_one_another(std::span<const Matrix<const float>> parts) {
  std::vector<float> out;
  for (int64_t row = 0; row < parts[0].rows; ++row) {
    for (const auto& part : parts) out.insert(out.end(), part.row(row), part.row(row) + part.cols);
  }
  return out;
}

}  // namespace

void compute_product(const Operation& op, const engine::Runtime& runtime, Matrix<float> out) {
  const engine::Orders orders(op.model, engine::whole_shard(op.model));
  kernels::PackedWeight packed;
  runtime.kernels.pack_weight({std::span(op.weights).first(1), Inner::kColumns}, packed,
                              runtime.pool);
  const float* bias = op.weights.size() > 1 ? op.weights[1].data : nullptr;
  const Matrix<const float> residual = op.rows.size() > 1 ? op.rows[1] : Matrix<const float>();
  runtime.run(&KernelSet::matmul,
              {op.rows[0], &packed, &forward_order(orders, op.event.op), bias, residual, out});
}

/// y_i = x . w_i, then the bias, then the residual.
void product64(const Operation& op, int64_t row, std::span<double> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const auto column = static_cast<int64_t>(i);
    out[i] = dot64(op.rows[0].row(row), op.weights[0].row(column), op.rows[0].cols);
    if (op.weights.size() > 1) out[i] += op.weights[1].data[column];
    if (op.rows.size() > 1) out[i] += op.rows[1](row, column);
  }
}

void compute_product_backward(const Operation& op, const engine::Runtime& runtime,
                              Matrix<float> out) {
  const engine::Orders orders(op.model, engine::whole_shard(op.model));
  kernels::PackedWeight packed;
  runtime.kernels.pack_weight({op.weights, Inner::kRows}, packed, runtime.pool);
  const std::vector<float> dy = beside_one_another(op.rows);
  runtime.run(&KernelSet::matmul, {{dy.data(), op.count, packed.k},
                                   &packed,
                                   &backward_order(orders, op.event.op),
                                   nullptr,
                                   {},
                                   out});
}

/// dx = dy w, over the outputs of all weights that read x (q, k and v; gate and up).
void product_backward64(const Operation& op, int64_t row, std::span<double> out) {
  for (size_t part = 0; part < op.rows.size(); ++part) {
    for (int64_t k = 0; k < op.rows[part].cols; ++k) {
      const double dy = op.rows[part](row, k);
      const float* w = op.weights[part].row(k);
      for (size_t i = 0; i < out.size(); ++i) out[i] += dy * w[i];
    }
  }
}

}  // namespace rlreplay::replay
