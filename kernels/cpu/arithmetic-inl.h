// The contract's functions on the vectors of the target that is being compiled: included after
// <hwy/highway.h> by files that foreach_target compiles, hence the guard per target.
#if defined(RLREPLAY_KERNELS_CPU_ARITHMETIC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLREPLAY_KERNELS_CPU_ARITHMETIC_INL_H_
#undef RLREPLAY_KERNELS_CPU_ARITHMETIC_INL_H_
#else
#define RLREPLAY_KERNELS_CPU_ARITHMETIC_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The primitive operations on one vector.
struct Simd {
  using D = hn::ScalableTag<float>;
  using DI = hn::ScalableTag<int32_t>;
  using F = hn::Vec<D>;
  using I = hn::Vec<DI>;
  using M = hn::Mask<D>;
#if HWY_TARGET == HWY_AVX3
  static constexpr bool kHasScale = true;
  static HWY_INLINE F scale(F y, F n) { return F{_mm512_scalef_ps(y.raw, n.raw)}; }
#else
  static constexpr bool kHasScale = false;
#endif

  static HWY_INLINE F set(float x) { return hn::Set(D(), x); }
  static HWY_INLINE I seti(int32_t x) { return hn::Set(DI(), x); }
  static HWY_INLINE F add(F a, F b) { return hn::Add(a, b); }
  static HWY_INLINE F sub(F a, F b) { return hn::Sub(a, b); }
  static HWY_INLINE F mul(F a, F b) { return hn::Mul(a, b); }
  static HWY_INLINE F div(F a, F b) { return hn::Div(a, b); }
  static HWY_INLINE F sqrt(F a) { return hn::Sqrt(a); }
  static HWY_INLINE F fma(F a, F b, F c) { return hn::MulAdd(a, b, c); }
  // The order of the operands keeps a NaN in b on x86, as the contract's a < b ? a : b does.
  static HWY_INLINE F min(F a, F b) { return hn::Min(a, b); }
  static HWY_INLINE F max(F a, F b) { return hn::Max(a, b); }
  static HWY_INLINE M less(F a, F b) { return hn::Lt(a, b); }
  static HWY_INLINE M equal(F a, F b) { return hn::Eq(a, b); }
  static HWY_INLINE F select(M m, F yes, F no) { return hn::IfThenElse(m, yes, no); }
  static HWY_INLINE I bits(F x) { return hn::BitCast(DI(), x); }
  static HWY_INLINE F from_bits(I x) { return hn::BitCast(D(), x); }
  static HWY_INLINE I to_int(F x) { return hn::ConvertTo(DI(), x); }
  static HWY_INLINE F to_float(I x) { return hn::ConvertTo(D(), x); }
  static HWY_INLINE I addi(I a, I b) { return hn::Add(a, b); }
  static HWY_INLINE I subi(I a, I b) { return hn::Sub(a, b); }
  static HWY_INLINE I andi(I a, I b) { return hn::And(a, b); }
  static HWY_INLINE I ori(I a, I b) { return hn::Or(a, b); }
  template <int n>
  static HWY_INLINE I shl(I a) {
    return hn::ShiftLeft<n>(a);
  }
  template <int n>
  static HWY_INLINE I sar(I a) {
    return hn::ShiftRight<n>(a);
  }
};

#define RLREPLAY_FUNCTION HWY_INLINE
#include "kernels/functions.inc"
#undef RLREPLAY_FUNCTION

}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
