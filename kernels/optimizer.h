#pragma once

#include <array>
#include <cstdint>
#include <span>

/// From exact gradient sums to updated weights.
namespace rlreplay::kernels {

/// Sum of squares of int64 values as 160-bit number: five 32-bit limbs, little end first, each in
/// an int64 lane with room for carries, so that a collective may add them. Order does not matter.
using SquareSum = std::array<int64_t, 5>;

/// out[i] += the limbs of the sum of grad[i]^2. |grad| < 2^63.
struct SumSquares {
  std::span<const int64_t> grad;
  SquareSum* out = nullptr;
};

/// sqrt(sum) 2^-scale in binary64: carries propagated, one rounding to binary64, sqrt.
double norm(const SquareSum& sum, int scale);

/// grad[i] = fl(sum[i]) 2^-scale, one conversion with round to nearest even.
struct TokenGradient {
  std::span<const int64_t> sum;
  int scale = 0;
  std::span<float> grad;
};

/// One AdamW update with decoupled decay, in place.
/// Shapes: all equal. Units: bias corrections are 1 - beta^t from binary64 (`adamw_step`).
/// Rounding: g = fl(sum) 2^-scale clip; m = fma(beta1, m, (1-beta1) g);
/// v = fma(beta2, v, ((1-beta2) g) g); d = sqrt(v) / sqrt(1 - beta2^t) + eps;
/// w = fma(-lr decay, w, w); w = fma(-lr / (1 - beta1^t), m / d, w).
struct AdamW {
  std::span<const int64_t> sum;
  int scale = 0;
  float clip = 1;      // min(1, div(c, norm + eps))
  float lr_decay = 0;  // lr * weight decay
  float beta1 = 0;
  float one_minus_beta1 = 0;  // rounded from binary64
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float step_size = 0;         // lr / (1 - beta1^t)
  float sqrt_correction2 = 1;  // sqrt(1 - beta2^t)
  float eps = 0;
  std::span<float> m;
  std::span<float> v;
  std::span<float> w;
};

}  // namespace rlreplay::kernels
