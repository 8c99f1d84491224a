// TokenSum's rule on vectors: included after <hwy/highway.h>, once per target.
#if defined(RLREPLAY_KERNELS_CPU_TOKEN_SUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLREPLAY_KERNELS_CPU_TOKEN_SUM_INL_H_
#undef RLREPLAY_KERNELS_CPU_TOKEN_SUM_INL_H_
#else
#define RLREPLAY_KERNELS_CPU_TOKEN_SUM_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include <hwy/highway.h>

#include "kernels/cpu/arithmetic-inl.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/token_sum.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {

/// Rounds vectors of contributions, and notes those that are rejected.
class TokenVector {
 public:
  using D = Simd::D;
  using DI64 = hn::Repartition<int64_t, D>;
  using DF64 = hn::Repartition<double, D>;
  using I64 = hn::Vec<DI64>;

  HWY_INLINE TokenVector(const TokenRounding& rounding, Rejected* rejected)
      : limit_(Simd::set(rounding.limit)), unit_(unit(rounding)), rejected_(rejected) {}

  /// sum[i] += a[i] for one vector of contributions; a rejected one adds nothing. `element` is the
  /// sum's of a[0]; lanes from `left` on are no contributions.
  HWY_INLINE void add(Simd::F a, int64_t* HWY_RESTRICT sum, int64_t element, int64_t left) const {
    const DI64 di;
    const auto half = hn::Lanes(di);
    const auto accepted = hn::Lt(hn::Abs(a), limit_);
    if (HWY_UNLIKELY(!hn::AllTrue(D(), accepted))) {
      note(a, element, left);
      a = hn::IfThenElseZero(accepted, a);
    }
    hn::StoreU(hn::Add(hn::LoadU(di, sum), round(hn::LowerHalf(a))), di, sum);
    hn::StoreU(hn::Add(hn::LoadU(di, sum + half), round(hn::UpperHalf(hn::Half<D>(), a))), di,
               sum + half);
  }

 private:
  HWY_NOINLINE void note(Simd::F a, int64_t element, int64_t left) const {
    constexpr int64_t kLanes = hn::MaxLanes(D());
    HWY_ALIGN float values[kLanes], limits[kLanes];
    hn::Store(a, D(), values);
    hn::Store(limit_, D(), limits);
    for (int64_t i = 0; i < std::min(kLanes, left); ++i) {
      if (!(std::fabs(values[i]) < limits[i])) rejected_->add(values[i], element + i);
    }
  }

  using Half = hn::Vec<hn::Half<D>>;

#if HWY_TARGET == HWY_AVX3
  using Unit = Simd::F;

  /// S is at most 126, so 2^S is a float; below 2^-149 it is +0, which the contributions round to.
  static HWY_INLINE Unit unit(const TokenRounding& rounding) {
    return Simd::set(static_cast<float>(rounding.unit));
  }

  /// a 2^S is below 2^62 and exact, or so small that it rounds to 0; the conversion rounds to
  /// nearest, ties to even.
  HWY_INLINE I64 round(Half a) const {
    return I64{_mm512_cvtps_epi64(hn::Mul(a, hn::LowerHalf(unit_)).raw)};
  }
#else
  using Unit = hn::Vec<DF64>;

  static HWY_INLINE Unit unit(const TokenRounding& rounding) {
    return hn::Set(DF64(), rounding.unit);
  }

  /// x = a 2^S is exact. It is split into a multiple of 2^32 and a rest of at most 2^31, exactly
  /// (24 significant bits); each becomes an integer in the low bits of a sum with 1.5 2^52, where
  /// the rest is rounded to nearest, ties to even. Conversions of double to int64 are slow or
  /// missing on some targets.
  HWY_INLINE I64 round(Half a) const {
    const DF64 dd;
    const DI64 di;
    const auto shift = hn::Set(dd, 0x1.8p52);
    const auto x = hn::Mul(hn::PromoteTo(dd, a), unit_);
    const auto high = hn::MulAdd(x, hn::Set(dd, 0x1p-32), shift);
    const auto rest = hn::NegMulAdd(hn::Sub(high, shift), hn::Set(dd, 0x1p32), x);
    const auto low = hn::Add(rest, shift);
    // The exponent bits of `high` leave at the top; those of `low` are subtracted.
    return hn::Add(hn::ShiftLeft<32>(hn::BitCast(di, high)),
                   hn::Sub(hn::BitCast(di, low), hn::BitCast(di, shift)));
  }
#endif

  Simd::F limit_;
  Unit unit_;
  Rejected* rejected_;
};

}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // per-target guard
