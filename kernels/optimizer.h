#pragma once

#include <array>
#include <cstdint>
#include <span>

/// From exact gradient sums to updated weights.
namespace rlreplay::kernels {

/// A sum of squares of int64 values as a 160-bit number: five 32-bit limbs, little end first, each
/// in an int64 lane with room for 2^31 carries, so that a collective may add limbs as they are.
using SquareSum = std::array<int64_t, 5>;

/// out[i] += limb i, below 2^32, of the sum of grad[i]^2. |grad[i]| < 2^63.
/// Order: any, the sum is exact.
struct SumSquares {
  std::span<const int64_t> grad;
  SquareSum* out = nullptr;
};

/// sqrt(sum) 2^-scale in binary64: carries propagated, one rounding to binary64 (ties to even),
/// then a correctly rounded root and an exact power of two.
[[nodiscard]] double norm(const SquareSum& sum, int scale);

/// min(1, div(max_norm, fl(norm) + eps)) in binary32, with the norm rounded to it once.
[[nodiscard]] float clip_scale(double norm, float max_norm, float eps);

/// grad[i] = fl(sum[i]) 2^-scale: one rounding to nearest even.
/// Shapes: equal. scale <= 126, so that no result is subnormal.
/// Order: nothing is summed.
/// No step runs it: adamw rounds so what it reads. By itself the rule is proved on all integers.
struct TokenGradient {
  std::span<const int64_t> sum;
  int scale = 0;
  std::span<float> grad;
};

/// The hyperparameters of AdamW at one step, in binary64 as the user wrote them.
struct AdamWOptions {
  double rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

/// What the update of every element reads of the options, computed once a step in binary64.
struct AdamWStep {
  double beta1 = 0;
  double one_minus_beta1 = 0;
  double beta2 = 0;
  double one_minus_beta2 = 0;
  double eps = 0;
  double decay = 0;         // rate weight_decay
  double step_size = 0;     // div(rate, 1 - beta1^t)
  double inverse_root = 0;  // div(1, sqrt(1 - beta2^t))
};

/// Order: beta^t is the product ((beta beta) beta) ... of t factors in binary64.
/// Errors: kUsage unless step >= 1 (the first update is step 1) and 0 <= beta < 1.
[[nodiscard]] AdamWStep adamw_step(const AdamWOptions& options, int64_t step);

/// One AdamW update with bias correction and decoupled decay, eps outside of the root, in place.
/// Source: Loshchilov, Hutter, Decoupled weight decay regularization (2019), algorithm 2.
/// Shapes: all equal.
/// Order: nothing is summed.
/// Rounding: every element is computed in binary64 and rounded to binary32 three times, at the
/// stores of m, v and w. In binary32 the difference m - beta1 m + ... and the last subtraction
/// would lose digits wherever they cancel.
///   g = (fl(sum) 2^-scale) clip
///   m1 = fma(beta1, m, (1 - beta1) g)
///   v1 = fma(beta2, v, ((1 - beta2) g) g)
///   d = fma(sqrt(v1), inverse_root, eps)
///   w1 = fma(-step_size, div(m1, d), fma(-decay, w, w))
/// d is 0 only if eps and the gradients so far are: then w1 is not a number.
struct AdamW {
  std::span<const int64_t> sum;
  int scale = 0;
  float clip = 1;
  AdamWStep step;
  std::span<float> m;
  std::span<float> v;
  std::span<float> w;
};

}  // namespace rlreplay::kernels
