// A leaf of a weight gradient: chains of products, rounded and added to sums of int64. Included
// after <hwy/highway.h>, once per target.
#if defined(RLREPLAY_KERNELS_CPU_TOKEN_LEAF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLREPLAY_KERNELS_CPU_TOKEN_LEAF_INL_H_
#undef RLREPLAY_KERNELS_CPU_TOKEN_LEAF_INL_H_
#else
#define RLREPLAY_KERNELS_CPU_TOKEN_LEAF_INL_H_
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>
#include <utility>

#include <hwy/highway.h>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/matmul-inl.h"
#include "kernels/cpu/token_sum-inl.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {
namespace {

/// Whether the target converts float to int64 by itself.
constexpr bool kDirect = HWY_TARGET == HWY_AVX3;

using Half = hn::Vec<hn::Half<Simd::D>>;
using DI64 = hn::Repartition<int64_t, Simd::D>;

/// 2^S, at most 2^126. Where it is below every float, it is +0, which all contributions round to.
using Unit = std::conditional_t<kDirect, float, double>;

/// a 2^S, rounded to nearest, ties to even; below 2^51 where the target does not convert.
HWY_INLINE hn::Vec<DI64> round_small(Half a, Unit unit) {
#if HWY_TARGET == HWY_AVX3
  // The product is exact, or so small that it rounds to 0.
  const auto scaled = hn::Mul(a, hn::Set(hn::Half<Simd::D>(), unit));
  return hn::Vec<DI64>{_mm512_cvtps_epi64(scaled.raw)};
#else
  // One fused multiply-add with 1.5 2^52 rounds; its bits are those of 1.5 2^52 plus the integer.
  const hn::Repartition<double, Simd::D> dd;
  const auto shift = hn::Set(dd, 0x1.8p52);
  const auto sum = hn::MulAdd(hn::PromoteTo(dd, a), hn::Set(dd, unit), shift);
  return hn::Sub(hn::BitCast(DI64(), sum), hn::BitCast(DI64(), shift));
#endif
}

/// Where the sums of a tile lie before and after a leaf: kTileRows rows of a panel each.
struct Sums {
  const int64_t* from = nullptr;  // null: they are zero
  int64_t from_stride = 0;
  int64_t* to = nullptr;
  int64_t to_stride = 0;
  bool stream = false;  // past the caches
  int64_t element = 0;  // of the whole sum, the first of the tile
};

/// Adds the contributions of leaves to sums of int64.
class LeafRounding {
 public:
  LeafRounding(const TokenRounding& rounding, const TokenSum& sum)
      : rounding_(rounding),
        rejected_(sum.rejected),
        columns_(sum.sum.cols),
        unit_(static_cast<Unit>(rounding.unit)),
        small_bits_(std::bit_cast<int32_t>(
            kDirect ? rounding.limit
                    : std::min(rounding.limit, static_cast<float>(0x1p51 / rounding.unit)))) {}

  /// Whether `add_row` may take the values of this leaf.
  template <int kRows>
  HWY_INLINE bool small(const Simd::F (&acc)[kRows][2]) const {
    const Simd::DI di;
    // As integers, NaN is above infinity and infinity above every number.
    auto largest = hn::Zero(di);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) largest = hn::Max(largest, hn::BitCast(di, hn::Abs(acc[r][v])));
    }
    return hn::AllTrue(di, hn::Lt(largest, hn::Set(di, small_bits_)));
  }

  /// The row `r` of sums with values[0..kPanel), which are small.
  HWY_INLINE void add_row(const float* HWY_RESTRICT values, const Sums& sums, int64_t r) const {
    int64_t* to = sums.to + r * sums.to_stride;
    const DI64 d;
    const auto added = [&](int64_t i, auto x) {
      return hn::Add(hn::LoadU(d, sums.from + r * sums.from_stride + i), x);
    };
    if (sums.from == nullptr && sums.stream) {
      each(values, [&](int64_t i, auto x) { hn::Stream(x, d, to + i); });
    } else if (sums.from == nullptr) {
      each(values, [&](int64_t i, auto x) { hn::StoreU(x, d, to + i); });
    } else if (sums.stream) {
      each(values, [&](int64_t i, auto x) { hn::Stream(added(i, x), d, to + i); });
    } else {
      each(values, [&](int64_t i, auto x) { hn::StoreU(added(i, x), d, to + i); });
    }
  }

  /// Adds `rows` rows of any values.
  HWY_NOINLINE void add_large(const float* values, int64_t rows, const Sums& sums) const {
    const TokenVector rounding(rounding_, rejected_);
    const int64_t width = columns_ - sums.element % columns_;  // of the panel; the rest is padding
    for (int64_t r = 0; r < rows; ++r) {
      int64_t* to = sums.to + r * sums.to_stride;
      if (sums.from == nullptr) {
        std::fill_n(to, kPanel, 0);
      } else if (sums.from != sums.to) {
        std::copy_n(sums.from + r * sums.from_stride, kPanel, to);
      }
      for (int64_t i = 0; i < kPanel; i += kLanes, values += kLanes) {
        rounding.add(hn::Load(Simd::D(), values), to + i, sums.element + r * columns_ + i,
                     width - i);
      }
    }
  }

 private:
  template <class Take>
  HWY_INLINE void each(const float* HWY_RESTRICT values, Take take) const {
    constexpr int64_t kHalf = kLanes / 2;
#pragma GCC unroll 4
    for (int64_t i = 0; i < kPanel; i += kHalf) {
      take(i, round_small(hn::Load(hn::Half<Simd::D>(), values + i), unit_));
    }
  }

  TokenRounding rounding_;
  Rejected* rejected_;
  int64_t columns_;
  Unit unit_;
  int32_t small_bits_;  // magnitudes below are accepted, and small enough for round_small
};

/// The values of a leaf that are not yet in its sums: the next leaf's chain hides their addition.
struct Pending {
  HWY_ALIGN float values[kTileRows * kPanel];
  Sums sums;
  int64_t rows = 0;

  void add(int64_t first, const LeafRounding& rounding) {
    for (int64_t r = first; r < rows; ++r) rounding.add_row(values + r * kPanel, sums, r);
  }
  void finish(const LeafRounding& rounding) {
    add(0, rounding);
    rows = 0;
  }
};

/// Adds what is pending, and leaves one leaf of `tokens` tokens pending for `sums`. fetch: whether
/// the sums are not yet in the cache.
using Leaf = void (*)(const float* a, const float* b, int64_t tokens, const LeafRounding& rounding,
                      const Sums& sums, bool fetch, Pending& pending);

/// The Leaf of a tile of kRows rows.
template <int kRows>
HWY_NOINLINE void leaf(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int64_t tokens,
                       const LeafRounding& rounding, const Sums& sums, bool fetch,
                       Pending& pending) {
  const Simd::D d;
  Simd::F acc[kRows][2];
  clear<kRows, 1>(acc);
  // A row at a time, spread over the chain: at once they would hold up its own loads.
  const int64_t run = tokens / kRows;
  for (int r = 0; r < kRows; ++r, a += run * kRows, b += run * kPanel) {
    if (fetch) {
      const int64_t* row = sums.from + r * sums.from_stride;
      for (int64_t i = 0; i < kPanel; i += 8) hwy::Prefetch(row + i);
    }
    if (r < pending.rows) rounding.add_row(pending.values + r * kPanel, pending.sums, r);
    chain<kRows, 1>(a, b, 0, run, acc);
  }
  pending.add(kRows, rounding);
  chain<kRows, 1>(a, b, 0, tokens - run * kRows, acc);
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) hn::Store(acc[r][v], d, pending.values + r * kPanel + v * kLanes);
  }
  if (HWY_UNLIKELY(!rounding.small<kRows>(acc))) {
    pending.rows = 0;
    return rounding.add_large(pending.values, kRows, sums);
  }
  pending.sums = sums;
  pending.rows = kRows;
}

template <int... kRow>
[[nodiscard]] constexpr std::array<Leaf, sizeof...(kRow)> all_leaves(
    std::integer_sequence<int, kRow...>) {
  return {leaf<kRow + 1>...};
}

/// The Leaf of a tile of 1 to kTileRows rows.
[[nodiscard]] Leaf choose_leaf(int64_t rows) {
  static constexpr auto kLeaves = all_leaves(std::make_integer_sequence<int, kTileRows>());
  return kLeaves[static_cast<size_t>(rows - 1)];
}

}  // namespace
}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // per-target guard
