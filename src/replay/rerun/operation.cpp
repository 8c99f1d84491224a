#include "src/replay/rerun/operation.h"

#include <cmath>

#include "src/base/error.h"
#include "src/base/thread_pool.h"

namespace rlreplay::replay {
namespace {

using kernels::Heads;
using kernels::KernelSet;
using kernels::Matrix;

void multiply(const Operation& op, const KernelSet& set, ThreadPool& pool, Matrix<float> y) {
  const bool backward = op.form == Form::kLinearBackward;
  kernels::PackedWeight packed;
  const std::span parts(op.weights.data(), 1);
  set.pack_weight({parts, backward ? kernels::Inner::kRows : kernels::Inner::kColumns}, packed,
                  pool);
  const float* bias = op.weights.size() > 1 ? op.weights[1].data : nullptr;
  const Matrix<const float> residual = op.rows.size() > 1 ? op.rows[1] : Matrix<const float>();
  set.matmul({op.rows[0], &packed, &op.order, bias, residual, y}, pool);
}

void normalize(const Operation& op, const KernelSet& set, ThreadPool& pool, Matrix<float> out) {
  const Matrix<const float> x = op.rows[0];
  const int64_t width = x.cols / op.heads;
  const bool scale = op.form == Form::kNormScale;
  const std::vector<float> ones(static_cast<size_t>(width), 1);
  std::vector<float> other(static_cast<size_t>(scale ? x.rows * x.cols : x.rows * op.heads));
  float* y = scale ? other.data() : out.data;
  float* r = scale ? out.data : other.data();
  set.rms_norm({Heads<const float>(x.data, x.rows, op.heads, width),
                scale ? ones.data() : op.weights[0].data, op.eps,
                Heads<float>(y, x.rows, op.heads, width), r},
               pool);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Below is the same in binary64, from the definitions alone: no kernel, no order of summation.
double product64(const Operation& op, int64_t row, int64_t column) {
  const Matrix<const float> x = op.rows[0], w = op.weights[0];
  const bool backward = op.form == Form::kLinearBackward;
  double sum = 0;
  for (int64_t k = 0; k < x.cols; ++k) {
    sum += static_cast<double>(x(row, k)) * (backward ? w(k, column) : w(column, k));
  }
  if (op.weights.size() > 1) sum += op.weights[1].data[column];
  if (op.rows.size() > 1) sum += op.rows[1](row, column);
  return sum;
}

double scale64(const Operation& op, int64_t row, int64_t head) {
  const int64_t width = op.rows[0].cols / op.heads;
  const float* x = op.rows[0].row(row) + head * width;
  double squares = 0;
  for (int64_t i = 0; i < width; ++i) squares += static_cast<double>(x[i]) * x[i];
  return 1 / std::sqrt(squares / static_cast<double>(width) + op.eps);
}

double element64(const Operation& op, int64_t row, int64_t column) {
  const auto in = [&](size_t i) { return static_cast<double>(op.rows[i](row, column)); };
  switch (op.form) {
    case Form::kLinear:
    case Form::kLinearBackward:
      return product64(op, row, column);
    case Form::kNorm: {
      const int64_t width = op.rows[0].cols / op.heads;
      return in(0) * scale64(op, row, column / width) * op.weights[0].data[column % width];
    }
    case Form::kNormScale:
      return scale64(op, row, column);
    case Form::kSwiGlu:
      return in(0) * sigmoid(in(0)) * in(1);
    case Form::kSwiGluGate: {
      const double s = sigmoid(in(1));
      return in(0) * in(2) * s * (1 + in(1) * (1 - s));
    }
    case Form::kSwiGluUp:
      return in(0) * in(1) * sigmoid(in(1));
  }
  throw Error(ErrorCode::kInternal, "an operation of no form");
}

}  // namespace

std::vector<float> compute(const Operation& op, const KernelSet& kernels, ThreadPool& pool) {
  const int64_t rows = op.rows[0].rows;
  std::vector<float> out(static_cast<size_t>(rows * op.columns));
  const Matrix<float> y(out.data(), rows, op.columns);
  switch (op.form) {
    case Form::kLinear:
    case Form::kLinearBackward:
      multiply(op, kernels, pool, y);
      return out;
    case Form::kNorm:
    case Form::kNormScale:
      normalize(op, kernels, pool, y);
      return out;
    case Form::kSwiGlu:
      kernels.swiglu({op.rows[0], op.rows[1], y}, pool);
      return out;
    case Form::kSwiGluGate:
    case Form::kSwiGluUp:
      break;
  }
  std::vector<float> other(out.size());
  const Matrix<float> beside(other.data(), rows, op.columns);
  const bool gate = op.form == Form::kSwiGluGate;
  kernels.swiglu_backward(
      {op.rows[1], op.rows[2], op.rows[0], gate ? y : beside, gate ? beside : y}, pool);
  return out;
}

std::vector<double> compute_binary64(const Operation& op, ThreadPool& pool) {
  std::vector<double> out(static_cast<size_t>(op.rows[0].rows * op.columns));
  pool.run(op.rows[0].rows, [&](int64_t row, int) {
    for (int64_t column = 0; column < op.columns; ++column) {
      out[static_cast<size_t>(row * op.columns + column)] = element64(op, row, column);
    }
  });
  return out;
}

}  // namespace rlreplay::replay
