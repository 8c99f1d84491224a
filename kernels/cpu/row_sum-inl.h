// The sums along a row on vectors: included after <hwy/highway.h>, once per target.
#if defined(RLREPLAY_KERNELS_CPU_ROW_SUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLREPLAY_KERNELS_CPU_ROW_SUM_INL_H_
#undef RLREPLAY_KERNELS_CPU_ROW_SUM_INL_H_
#else
#define RLREPLAY_KERNELS_CPU_ROW_SUM_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include <hwy/highway.h>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/vectors-inl.h"
#include "kernels/order.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {

/// The 32 lanes of a block of `row`.
class RowLanes {
 public:
  static constexpr int64_t kVectors = kRowLanes / kLanes;

  HWY_INLINE RowLanes() {
    for (auto& v : lanes_) v = hn::Zero(Simd::D());
  }
  HWY_INLINE Simd::F& operator[](int64_t v) { return lanes_[v]; }

  /// Lane 0 after the folds by xor 16, 8, 4, 2, 1.
  HWY_INLINE float fold() {
    for (int64_t half = kVectors / 2; half > 0; half /= 2) {
      for (int64_t v = 0; v < half; ++v) lanes_[v] = hn::Add(lanes_[v], lanes_[v + half]);
    }
    return fold(Simd::D(), lanes_[0]);
  }

 private:
  template <class D>
  static HWY_INLINE float fold(D d, hn::Vec<D> v) {
    if constexpr (hn::MaxLanes(D()) > 4) {
      const hn::Half<D> half;
      return fold(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
    } else {
      v = hn::Add(v, hn::Shuffle1032(v));
      return hn::GetLane(hn::Add(v, hn::Shuffle2301(v)));
    }
    static_cast<void>(d);
  }

  Simd::F lanes_[kVectors];
};

/// `row(n)` of docs/numerics.md section 2. term(access, i, lane) returns the lane vector with
/// elements i, i + 1, ... added or fused; what it returns in lanes without memory is ignored.
template <class Term>
HWY_INLINE float row(int64_t n, Term term) {
  float total = 0;
  for (int64_t block = 0; block < n; block += kRowBlock) {
    const int64_t end = std::min(n, block + kRowBlock);
    RowLanes lanes;
    int64_t i = block;
    for (; i + kRowLanes <= end; i += kRowLanes) {
      for (int64_t v = 0; v < RowLanes::kVectors; ++v) {
        lanes[v] = term(Whole(), i + v * kLanes, lanes[v]);
      }
    }
    for (int64_t v = 0; i < end; ++v, i += kLanes) {
      if (end - i >= kLanes) {
        lanes[v] = term(Whole(), i, lanes[v]);
      } else {
        const Part part{end - i};
        lanes[v] = part.keep(term(part, i, lanes[v]), lanes[v]);
      }
    }
    total = total + lanes.fold();
  }
  return total;
}

/// Two rows of sums over the same elements: term(access, i, a, b) changes the lanes a and b.
struct TwoSums {
  float a = 0;
  float b = 0;
};

/// What two calls of `row` give, in one pass.
template <class Term>
HWY_INLINE TwoSums two_rows(int64_t n, Term term) {
  TwoSums total;
  for (int64_t block = 0; block < n; block += kRowBlock) {
    const int64_t end = std::min(n, block + kRowBlock);
    RowLanes a, b;
    int64_t i = block;
    for (; i + kRowLanes <= end; i += kRowLanes) {
      for (int64_t v = 0; v < RowLanes::kVectors; ++v) term(Whole(), i + v * kLanes, a[v], b[v]);
    }
    for (int64_t v = 0; i < end; ++v, i += kLanes) {
      if (end - i >= kLanes) {
        term(Whole(), i, a[v], b[v]);
      } else {
        const Part part{end - i};
        auto next_a = a[v], next_b = b[v];
        term(part, i, next_a, next_b);
        a[v] = part.keep(next_a, a[v]);
        b[v] = part.keep(next_b, b[v]);
      }
    }
    total.a = total.a + a.fold();
    total.b = total.b + b.fold();
  }
  return total;
}

}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // per-target guard
