// The inner loops of the products: included after <hwy/highway.h>, once per target.
#if defined(RLREPLAY_KERNELS_CPU_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLREPLAY_KERNELS_CPU_MATMUL_INL_H_
#undef RLREPLAY_KERNELS_CPU_MATMUL_INL_H_
#else
#define RLREPLAY_KERNELS_CPU_MATMUL_INL_H_
#endif

#include <algorithm>
#include <utility>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/cpu/arithmetic-inl.h"
#include "kernels/cpu/dispatch.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {

/// Lanes as a constant: none of the targets has scalable vectors.
inline constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(float);
inline constexpr int64_t kPanel = 2 * kLanes;  // columns of a panel

/// Rows of the largest register tile: 2 kTileRows accumulators, two vectors of the panel and a
/// broadcast element fill the registers (AVX2 has 16, the others 32).
inline constexpr int kTileRows = HWY_TARGET == HWY_AVX2 ? 6 : 12;

/// Rows of a panel between the one that is prefetched and the one that is read.
inline constexpr int64_t kAhead = 32;

/// Begins the chains at +0.
template <int kRows, int kPanels>
HWY_INLINE void clear(Simd::F (&acc)[kRows][2 * kPanels]) {
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < 2 * kPanels; ++v) acc[r][v] = hn::Zero(Simd::D());
  }
}

/// Continues the fma chains acc[r][v] over ascending k with a[k][r] b[k][v], for `kPanels` panels
/// that lie `panel_stride` floats apart. a: [k][kRows], b: [k][kPanel].
template <int kRows, int kPanels>
HWY_INLINE void chain(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                      int64_t panel_stride, int64_t k, Simd::F (&acc)[kRows][2 * kPanels]) {
  const Simd::D d;
  for (; k > 0; --k, a += kRows, b += kPanel) {
    Simd::F row[2 * kPanels];
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      row[2 * p] = hn::LoadU(d, b + p * panel_stride);
      row[2 * p + 1] = hn::LoadU(d, b + p * panel_stride + kLanes);
    }
    if constexpr (kPanels == 1) {  // several streams keep the hardware's own prefetcher busy
      hwy::Prefetch(b + kAhead * kPanel);
      hwy::Prefetch(b + kAhead * kPanel + kLanes);
    }
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const auto x = hn::Set(d, a[r]);
#pragma GCC unroll 8
      for (int v = 0; v < 2 * kPanels; ++v) acc[r][v] = hn::MulAdd(x, row[v], acc[r][v]);
    }
  }
}

/// dst[k][r] = src[r][k] for `rows` rows and `k` columns, few enough for dst to stay in the cache.
HWY_INLINE void transpose_block(const float* HWY_RESTRICT src, int64_t src_stride, int64_t rows,
                                int64_t k, float* HWY_RESTRICT dst, int64_t dst_stride) {
  const hn::FixedTag<float, 4> d;
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float* s0 = src + r * src_stride;
    const float *s1 = s0 + src_stride, *s2 = s1 + src_stride, *s3 = s2 + src_stride;
    float* to = dst + r;
    int64_t i = 0;
    for (; i + 4 <= k; i += 4, to += 4 * dst_stride) {
      const auto a = hn::LoadU(d, s0 + i), b = hn::LoadU(d, s1 + i);
      const auto c = hn::LoadU(d, s2 + i), e = hn::LoadU(d, s3 + i);
      const auto ac = hn::InterleaveLower(d, a, c), be = hn::InterleaveLower(d, b, e);
      const auto ac2 = hn::InterleaveUpper(d, a, c), be2 = hn::InterleaveUpper(d, b, e);
      hn::StoreU(hn::InterleaveLower(d, ac, be), d, to);
      hn::StoreU(hn::InterleaveUpper(d, ac, be), d, to + dst_stride);
      hn::StoreU(hn::InterleaveLower(d, ac2, be2), d, to + 2 * dst_stride);
      hn::StoreU(hn::InterleaveUpper(d, ac2, be2), d, to + 3 * dst_stride);
    }
    for (; i < k; ++i, to += dst_stride) {
      to[0] = s0[i];
      to[1] = s1[i];
      to[2] = s2[i];
      to[3] = s3[i];
    }
  }
  for (; r < rows; ++r) {
    for (int64_t i = 0; i < k; ++i) dst[i * dst_stride + r] = src[r * src_stride + i];
  }
}

/// dst[k][r] = src[r][k] for `rows` rows and `k` columns.
HWY_INLINE void transpose(const float* HWY_RESTRICT src, int64_t src_stride, int64_t rows,
                          int64_t k, float* HWY_RESTRICT dst, int64_t dst_stride) {
  constexpr int64_t kBlock = 64;
  for (int64_t i = 0; i < k; i += kBlock) {
    transpose_block(src + i, src_stride, rows, std::min(kBlock, k - i), dst + i * dst_stride,
                    dst_stride);
  }
}

}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // per-target guard
