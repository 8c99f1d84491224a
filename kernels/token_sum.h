#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>

#include "kernels/contract.h"
#include "kernels/view.h"

namespace rlreplay::kernels {

/// An exact sum over tokens: every contribution is rounded to the nearest multiple of 2^-scale,
/// ties to even, and added to an int64, so that no split and no order of the tokens can change a
/// bit. Partial sums may wrap; only single contributions are judged.
///
/// Units: sum[i] counts 2^-scale.
/// Errors: a contribution is accepted if and only if |a| < 2^(62 - scale - ceil(log2
/// contributions)), which NaN fails; one that is not adds nothing and sets *overflow to 1. The
/// caller then redoes the whole backward at scale - 8.
struct TokenSum {
  Matrix<int64_t> sum;           // the shape of the parameter; a vector has one row
  int scale = 0;                 // S
  int64_t contributions = 1;     // to this tensor, in the global batch, padding not counted
  uint32_t* overflow = nullptr;  // set, never cleared, by any worker
};

/// 62 - scale - ceil(log2 contributions): |a| must be below 2^limit_exponent.
int limit_exponent(int scale, int64_t contributions);

/// The rule of TokenSum on one contribution; host and device.
struct TokenRounding {
  float limit = 0;  // 2^limit_exponent, infinity if that is too large
  double unit = 1;  // 2^scale

  RLREPLAY_INLINE bool accepts(float a) const { return fabsf(a) < limit; }
  /// `a` must have been accepted: the product is exact and below 2^62, so one rounding is left.
  RLREPLAY_INLINE int64_t round(float a) const {
    return static_cast<int64_t>(llrint(static_cast<double>(a) * unit));
  }
};

TokenRounding token_rounding(const TokenSum& sum);

/// a + b modulo 2^64.
RLREPLAY_INLINE int64_t add_wrapping(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

/// Sets the flag of a rejected contribution; any worker may do so at any time.
inline void raise_overflow(uint32_t* overflow) {
  std::atomic_ref<uint32_t>(*overflow).store(1, std::memory_order_relaxed);
}

/// Adds one contribution to `sum`, or raises the flag.
inline void contribute(const TokenRounding& rounding, float a, int64_t& sum, uint32_t* overflow) {
  if (rounding.accepts(a)) {
    sum = add_wrapping(sum, rounding.round(a));
  } else {
    raise_overflow(overflow);
  }
}

/// The scale S of a step: min(126, 46 - ceil(log2 weight)), 0 counts as 1.
/// Units: weight is the total loss weight in binary64 (docs/numerics.md section 2).
/// Errors: kUsage unless it is finite and not negative.
int token_scale(double weight);

}  // namespace rlreplay::kernels
