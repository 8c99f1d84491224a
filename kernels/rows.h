#pragma once

#include <cstdint>

#include "kernels/token_sum.h"
#include "kernels/view.h"

/// Operations on rows: a token, or a head of a token, at a time. Orders by the names of
/// docs/numerics.md section 2.
namespace rlreplay::kernels {

/// out[t] = table[ids[t] - first_id]; rows of ids outside the table (another rank's) are left as
/// they are. Bytes are copied.
/// Shapes: table [ids of this rank, C]; ids [T]; out [T, C].
/// Order: nothing is summed.
struct Embedding {
  Matrix<const float> table;
  const int32_t* ids = nullptr;
  int32_t first_id = 0;
  Matrix<float> out;
};

/// dtable[ids[t] - first_id] += dx[t], every element a contribution; ids outside the table (another
/// rank's, or -1 for padding) are skipped.
/// Shapes: dx [T, C]; ids [T]; dtable.sum [ids of this rank, C].
/// Order: `tokens`, a contribution a token.
struct EmbeddingTokens {
  Matrix<const float> dx;
  const int32_t* ids = nullptr;
  int32_t first_id = 0;
  TokenSum dtable;
};

/// y = (x r) w with r = div(1, sqrt(div(row(x x), n) + eps)), per token and head.
/// Shapes: x, y [T, H, n], may be the same; w [n]; r [T, H] without gaps, kept for the backward.
/// Order: `row(n)`.
struct RmsNorm {
  Heads<const float> x;
  const float* w = nullptr;
  float eps = 0;
  Heads<float> y;
  float* r = nullptr;
};

/// g = dy; s = row of fma(g w, x); dx = fma(-x, ((r r) r) div(s, n), r (g w)), then + residual
/// where there is one; dw contribution per token and head g (x r).
/// Shapes: as RmsNorm; residual [T, H, n] or no data; dx may be dy or residual. dw.sum has one row
/// of n; no data means that another rank counts these tokens. Tokens for which `counts` is 0
/// (padding) contribute nothing to dw; null means that all do. Heads outside `dw_heads` are
/// replicas that another rank counts.
/// Order: s: `row(n)`; dw: `tokens`, a contribution a token and head.
struct RmsNormBackward {
  Heads<const float> x;
  const float* w = nullptr;
  const float* r = nullptr;
  Heads<const float> dy;
  Heads<const float> residual;
  Heads<float> dx;
  const uint8_t* counts = nullptr;
  Range dw_heads = {0, INT64_MAX};
  TokenSum dw;
};

/// dbias += dy[t], every element a contribution; rows with counts 0 contribute nothing.
/// Shapes: dy [T, N]; counts [T] or null; dbias.sum one row of N.
/// Order: `tokens`, a contribution a token.
struct BiasTokens {
  Matrix<const float> dy;
  const uint8_t* counts = nullptr;
  TokenSum dbias;
};

/// Rotary embedding with half-split pairs (i, i + D/2): y_i = fma(a, cos, -(b sin)),
/// y_{i+D/2} = fma(b, cos, a sin); `inverse` negates sin (the backward).
/// Shapes: x, y [T, H, D], may be the same, D even; positions [T]; cos, sin [positions, D/2].
/// Order: nothing is summed.
struct Rotary {
  Heads<const float> x;
  const int32_t* positions = nullptr;
  Matrix<const float> cos;
  Matrix<const float> sin;
  bool inverse = false;
  Heads<float> y;
};

/// out = silu(gate) up, silu as in functions.inc. Shapes: all [T, F]; out may be gate or up.
/// Order: nothing is summed.
struct SwiGlu {
  Matrix<const float> gate;
  Matrix<const float> up;
  Matrix<float> out;
};

/// sig = sigmoid(gate) as in functions.inc; dup = dout (gate sig);
/// dgate = (dout up) (sig fma(gate, 1 - sig, 1)).
/// Shapes: all [T, F]; dgate and dup may be any of the inputs.
/// Order: nothing is summed.
struct SwiGluBackward {
  Matrix<const float> gate;
  Matrix<const float> up;
  Matrix<const float> dout;
  Matrix<float> dgate;
  Matrix<float> dup;
};

}  // namespace rlreplay::kernels
