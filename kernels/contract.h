#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

/// The arithmetic of the contract (docs/numerics.md sections 1 and 3), compiled by host and device:
/// binary32, round to nearest even, subnormals kept, fused only where fma is written.
/// Build rules for the host: -ffp-contract=off.
/// Build rules for the device: --fmad=false -ftz=false -prec-div=true -prec-sqrt=true.
#if defined(__CUDACC__)
#define RLREPLAY_INLINE __host__ __device__ inline
#else
#define RLREPLAY_INLINE inline
#endif

namespace rlreplay::contract {

/// The primitive operations on one number.
struct Scalar {
  using F = float;
  using I = int32_t;
  using M = bool;
  static constexpr bool kHasScale = false;

  RLREPLAY_INLINE static F set(float x) { return x; }
  RLREPLAY_INLINE static I seti(int32_t x) { return x; }
  RLREPLAY_INLINE static F add(F a, F b) { return a + b; }
  RLREPLAY_INLINE static F sub(F a, F b) { return a - b; }
  RLREPLAY_INLINE static F mul(F a, F b) { return a * b; }
  RLREPLAY_INLINE static F div(F a, F b) { return a / b; }
  RLREPLAY_INLINE static F sqrt(F a) { return sqrtf(a); }
  RLREPLAY_INLINE static F fma(F a, F b, F c) { return fmaf(a, b, c); }
  RLREPLAY_INLINE static F min(F a, F b) { return a < b ? a : b; }
  RLREPLAY_INLINE static F max(F a, F b) { return a > b ? a : b; }
  RLREPLAY_INLINE static M less(F a, F b) { return a < b; }
  RLREPLAY_INLINE static M equal(F a, F b) { return a == b; }
  RLREPLAY_INLINE static F select(M m, F yes, F no) { return m ? yes : no; }
  RLREPLAY_INLINE static I bits(F x) {
    I out;
    memcpy(&out, &x, sizeof out);
    return out;
  }
  RLREPLAY_INLINE static F from_bits(I x) {
    F out;
    memcpy(&out, &x, sizeof out);
    return out;
  }
  /// Truncates. Callers keep NaN and what is out of range away, on which the conversions of
  /// machines disagree; here they give INT32_MIN, so that nothing is undefined.
  RLREPLAY_INLINE static I to_int(F x) {
    return x >= -2147483648.0f && x < 2147483648.0f ? static_cast<I>(x) : INT32_MIN;
  }
  RLREPLAY_INLINE static F to_float(I x) { return static_cast<F>(x); }
  RLREPLAY_INLINE static I addi(I a, I b) {
    return static_cast<I>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  }
  RLREPLAY_INLINE static I subi(I a, I b) {
    return static_cast<I>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
  }
  RLREPLAY_INLINE static I andi(I a, I b) { return a & b; }
  RLREPLAY_INLINE static I ori(I a, I b) { return a | b; }
  template <int n>
  RLREPLAY_INLINE static I shl(I a) {
    return static_cast<I>(static_cast<uint32_t>(a) << n);
  }
  template <int n>
  RLREPLAY_INLINE static I sar(I a) {
    return a >> n;
  }
};

#define RLREPLAY_FUNCTION RLREPLAY_INLINE
#include "kernels/functions.inc"
#undef RLREPLAY_FUNCTION

}  // namespace rlreplay::contract
