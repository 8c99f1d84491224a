#include <cmath>
#include <cstring>

#include "kernels/contract.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/row_sum.h"

/// The oracle for kernels/rows.h: each descriptor's formula in its order, an element at a time; no
/// vectors, no threads.
namespace rlreplay::kernels::reference {
namespace {

using contract::Scalar;

void embedding(const Embedding& op, ThreadPool&) {
  for (int64_t t = 0; t < op.out.rows; ++t) {
    const int64_t row = int64_t{op.ids[t]} - op.first_id;
    if (row < 0 || row >= op.table.rows) continue;
    std::memcpy(op.out.row(t), op.table.row(row), static_cast<size_t>(op.out.cols) * sizeof(float));
  }
}

void embedding_tokens(const EmbeddingTokens& op, ThreadPool&) {
  const auto rounding = token_rounding(op.dtable);
  for (int64_t t = 0; t < op.dx.rows; ++t) {
    const int64_t row = int64_t{op.ids[t]} - op.first_id;
    if (row < 0 || row >= op.dtable.sum.rows) continue;
    for (int64_t i = 0; i < op.dx.cols; ++i) {
      contribute(rounding, op.dx(t, i), op.dtable, row, i);
    }
  }
}

void bias_tokens(const BiasTokens& op, ThreadPool&) {
  const auto rounding = token_rounding(op.dbias);
  for (int64_t t = 0; t < op.dy.rows; ++t) {
    if (op.counts != nullptr && op.counts[t] == 0) continue;
    for (int64_t i = 0; i < op.dy.cols; ++i) {
      contribute(rounding, op.dy(t, i), op.dbias, 0, i);
    }
  }
}

void rms_norm(const RmsNorm& op, ThreadPool&) {
  const int64_t n = op.x.dim;
  for (int64_t t = 0; t < op.x.tokens; ++t) {
    for (int64_t h = 0; h < op.x.heads; ++h) {
      const float* x = op.x.at(t, h);
      float* y = op.y.at(t, h);
      const float squares = row(n, [&](int64_t i, float lane) { return fmaf(x[i], x[i], lane); });
      const float r = 1.0f / sqrtf(squares / static_cast<float>(n) + op.eps);
      for (int64_t i = 0; i < n; ++i) y[i] = (x[i] * r) * op.w[i];
      op.r[t * op.x.heads + h] = r;
    }
  }
}

void rms_norm_backward(const RmsNormBackward& op, ThreadPool&) {
  const int64_t n = op.x.dim;
  const auto rounding = token_rounding(op.dw);
  for (int64_t t = 0; t < op.x.tokens; ++t) {
    for (int64_t h = 0; h < op.x.heads; ++h) {
      const float *x = op.x.at(t, h), *g = op.dy.at(t, h), *w = op.w;
      const float* residual = op.residual.data == nullptr ? nullptr : op.residual.at(t, h);
      float* dx = op.dx.at(t, h);
      const float r = op.r[t * op.x.heads + h];
      const bool counts = op.dw.sum.data != nullptr && h >= op.dw_heads.begin &&
                          h < op.dw_heads.end && (op.counts == nullptr || op.counts[t] != 0);
      const float s = row(n, [&](int64_t i, float lane) { return fmaf(g[i] * w[i], x[i], lane); });
      const float pull = ((r * r) * r) * (s / static_cast<float>(n));
      for (int64_t i = 0; i < n; ++i) {
        const float gi = g[i];
        if (counts) contribute(rounding, gi * (x[i] * r), op.dw, 0, i);
        float d = fmaf(-x[i], pull, r * (gi * w[i]));
        if (residual != nullptr) d = d + residual[i];
        dx[i] = d;
      }
    }
  }
}

void rotary(const Rotary& op, ThreadPool&) {
  const int64_t half = op.x.dim / 2;
  for (int64_t t = 0; t < op.x.tokens; ++t) {
    for (int64_t h = 0; h < op.x.heads; ++h) {
      for (int64_t i = 0; i < half; ++i) {
        const float a = op.x.at(t, h)[i], b = op.x.at(t, h)[i + half];
        const float c = op.cos(op.positions[t], i);
        const float s = op.inverse ? -op.sin(op.positions[t], i) : op.sin(op.positions[t], i);
        op.y.at(t, h)[i] = fmaf(a, c, -(b * s));
        op.y.at(t, h)[i + half] = fmaf(b, c, a * s);
      }
    }
  }
}

void swiglu(const SwiGlu& op, ThreadPool&) {
  for (int64_t t = 0; t < op.out.rows; ++t) {
    for (int64_t i = 0; i < op.out.cols; ++i) {
      op.out(t, i) = contract::silu<Scalar>(op.gate(t, i)) * op.up(t, i);
    }
  }
}

void swiglu_backward(const SwiGluBackward& op, ThreadPool&) {
  for (int64_t t = 0; t < op.dout.rows; ++t) {
    for (int64_t i = 0; i < op.dout.cols; ++i) {
      const float gate = op.gate(t, i), up = op.up(t, i), dout = op.dout(t, i);
      const float sig = contract::sigmoid<Scalar>(gate);
      op.dup(t, i) = dout * (gate * sig);
      op.dgate(t, i) = (dout * up) * (sig * fmaf(gate, 1.0f - sig, 1.0f));
    }
  }
}

}  // namespace

void add_rows(KernelSet& set) {
  set.embedding = embedding;
  set.embedding_tokens = embedding_tokens;
  set.bias_tokens = bias_tokens;
  set.rms_norm = rms_norm;
  set.rms_norm_backward = rms_norm_backward;
  set.rotary = rotary;
  set.swiglu = swiglu;
  set.swiglu_backward = swiglu_backward;
}

}  // namespace rlreplay::kernels::reference
