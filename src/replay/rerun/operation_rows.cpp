#include <algorithm>
#include <cmath>

#include "src/replay/rerun/operation_forms.h"

namespace rlreplay::replay {
namespace {

using engine::Op;
using engine::Phase;
using kernels::Heads;
using kernels::KernelSet;
using kernels::Matrix;

/// Heads of a token that an operation takes one by one; a row where it takes it whole.
int64_t heads_of(const Operation& op) {
  if (op.event.op != Op::kQkNorm && op.event.op != Op::kRotary) return 1;
  const std::string_view tensor = op.event.tensor;
  const bool keys = tensor.starts_with("k") || tensor == "dk";
  return keys ? op.model.kv_heads : op.model.heads;
}

template <class T>
Heads<T> by_head(Matrix<T> m, int64_t heads) {
  return {m.data, m.rows, heads, m.cols / heads};
}

/// Whether the output is r, the factor of a norm, rather than the rows that it scales.
bool is_scale(const Operation& op) {
  return op.event.tensor == "r" || op.event.tensor.ends_with("_r");
}

/// r = 1 / sqrt(mean of x^2 + eps).
double norm_scale64(const Operation& op, const float* x, int64_t n) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += static_cast<double>(x[i]) * x[i];
  return 1 / std::sqrt(squares / static_cast<double>(n) + static_cast<float>(op.model.norm_eps));
}

double sigmoid64(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

void compute_embedding(const Operation& op, const engine::Runtime& runtime, Matrix<float> out) {
  runtime.run(&KernelSet::embedding, {op.weights[0], op.batch.ids.data(), 0, out});
}

void embedding64(const Operation& op, int64_t row, std::span<double> out) {
  const float* from = op.weights[0].row(op.batch.ids[static_cast<size_t>(row)]);
  std::copy_n(from, out.size(), out.begin());
}

void compute_norm(const Operation& op, const engine::Runtime& runtime, Matrix<float> out) {
  const Matrix<const float> x = op.rows[0];
  const int64_t heads = heads_of(op), width = x.cols / heads;
  const bool scale = is_scale(op);
  const std::vector<float> ones(static_cast<size_t>(width), 1);
  std::vector<float> other(static_cast<size_t>(scale ? x.rows * x.cols : x.rows * heads));
  float* y = scale ? other.data() : out.data;
  float* r = scale ? out.data : other.data();
  runtime.run(&KernelSet::rms_norm, {by_head(x, heads), scale ? ones.data() : op.weights[0].data,
                                     static_cast<float>(op.model.norm_eps),
                                     by_head(Matrix(y, x.rows, x.cols), heads), r});
}

/// y_i = x_i r w_i.
void norm64(const Operation& op, int64_t row, std::span<double> out) {
  const int64_t heads = heads_of(op), width = op.rows[0].cols / heads;
  for (int64_t h = 0; h < heads; ++h) {
    const float* x = op.rows[0].row(row) + h * width;
    const double r = norm_scale64(op, x, width);
    if (is_scale(op)) {
      out[static_cast<size_t>(h)] = r;
      continue;
    }
    for (int64_t i = 0; i < width; ++i) {
      out[static_cast<size_t>(h * width + i)] = x[i] * r * op.weights[0].data[i];
    }
  }
}

void compute_norm_backward(const Operation& op, const engine::Runtime& runtime, Matrix<float> out) {
  // Inputs in order: dy, the residual's gradient where there is one, x, r.
  const size_t x = op.rows.size() - 2;
  const int64_t heads = heads_of(op);
  const Matrix<const float> residual = x == 2 ? op.rows[1] : Matrix<const float>();
  runtime.run(&KernelSet::rms_norm_backward, {.x = by_head(op.rows[x], heads),
                                              .w = op.weights[0].data,
                                              .r = op.rows[x + 1].data,
                                              .dy = by_head(op.rows[0], heads),
                                              .residual = by_head(residual, heads),
                                              .dx = by_head(out, heads),
                                              .dw = {}});
}

/// dx_i = r dy_i w_i - x_i r^3 (sum of dy w x) / n, and the gradient that passes beside the norm.
void norm_backward64(const Operation& op, int64_t row, std::span<double> out) {
  const size_t at = op.rows.size() - 2;
  const int64_t heads = heads_of(op), width = op.rows[at].cols / heads;
  const float* w = op.weights[0].data;
  for (int64_t h = 0; h < heads; ++h) {
    const float* x = op.rows[at].row(row) + h * width;
    const float* dy = op.rows[0].row(row) + h * width;
    const double r = op.rows[at + 1](row, h);
    double s = 0;
    for (int64_t i = 0; i < width; ++i) s += static_cast<double>(dy[i]) * w[i] * x[i];
    for (int64_t i = 0; i < width; ++i) {
      double& dx = out[static_cast<size_t>(h * width + i)];
      dx = r * dy[i] * w[i] - x[i] * r * r * r * s / static_cast<double>(width);
      if (at == 2) dx += op.rows[1](row, h * width + i);
    }
  }
}

void compute_rotary(const Operation& op, const engine::Runtime& runtime, Matrix<float> out) {
  const int64_t heads = heads_of(op);
  runtime.run(&KernelSet::rotary,
              {by_head(op.rows[0], heads), op.batch.positions.data(), op.rotary->cos(),
               op.rotary->sin(), op.event.phase == Phase::kBackward, by_head(out, heads)});
}

/// The pair (x_i, x_(i + D/2)) turned by the position's angle; the backward turns it back.
void rotary64(const Operation& op, int64_t row, std::span<double> out) {
  const int64_t heads = heads_of(op), width = op.rows[0].cols / heads, half = width / 2;
  const int64_t position = op.batch.positions[static_cast<size_t>(row)];
  const double sign = op.event.phase == Phase::kBackward ? -1 : 1;
  for (int64_t h = 0; h < heads; ++h) {
    const float* x = op.rows[0].row(row) + h * width;
    double* y = out.data() + h * width;
    for (int64_t i = 0; i < half; ++i) {
      const double cos = op.rotary->cos()(position, i), sin = sign * op.rotary->sin()(position, i);
      y[i] = x[i] * cos - x[i + half] * sin;
      y[i + half] = x[i + half] * cos + x[i] * sin;
    }
  }
}

void compute_swiglu(const Operation& op, const engine::Runtime& runtime, Matrix<float> out) {
  runtime.run(&KernelSet::swiglu, {op.rows[0], op.rows[1], out});
}

/// gate sigmoid(gate) up.
void swiglu64(const Operation& op, int64_t row, std::span<double> out) {
  const float *gate = op.rows[0].row(row), *up = op.rows[1].row(row);
  for (size_t i = 0; i < out.size(); ++i) out[i] = gate[i] * sigmoid64(gate[i]) * up[i];
}

void compute_swiglu_backward(const Operation& op, const engine::Runtime& runtime,
                             Matrix<float> out) {
  std::vector<float> other(static_cast<size_t>(out.rows * out.cols));
  const Matrix<float> beside(other.data(), out.rows, out.cols);
  const bool gate = op.event.tensor == "dgate";
  runtime.run(&KernelSet::swiglu_backward,
              {op.rows[1], op.rows[2], op.rows[0], gate ? out : beside, gate ? beside : out});
}

/// dgate = d up s (1 + gate (1 - s)); dup = d gate s, where s = sigmoid(gate).
void swiglu_backward64(const Operation& op, int64_t row, std::span<double> out) {
  const float *dy = op.rows[0].row(row), *gate = op.rows[1].row(row), *up = op.rows[2].row(row);
  for (size_t i = 0; i < out.size(); ++i) {
    const double s = sigmoid64(gate[i]), d = dy[i];
    out[i] = op.event.tensor == "dgate" ? d * up[i] * s * (1 + gate[i] * (1 - s)) : d * gate[i] * s;
  }
}

}  // namespace rlreplay::replay
