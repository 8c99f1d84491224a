#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_tiles.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per target
#include <hwy/highway.h>

#include "kernels/cpu/attention-inl.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {
namespace attn {
namespace {

template <int rows, int vectors>
void tile(const Product& p) {
  const D d;
  V sum[rows][vectors];
  const int64_t a_row = p.a_row, c_row = p.c_row;
  float* const c = p.c;
  if (p.into == Into::kContinued) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const V factor = hn::Set(d, p.factors[r]);
#pragma GCC unroll 8
      for (int n = 0; n < vectors; ++n) {
        sum[r][n] = hn::Mul(hn::LoadU(d, c + r * c_row + n * kLanes), factor);
      }
    }
  } else {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
      for (int n = 0; n < vectors; ++n) sum[r][n] = hn::Zero(d);
    }
  }

  const float* a[rows];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) a[r] = p.a + r * a_row;
  const float* b = p.b;
  const int64_t a_step = p.a_step, b_step = p.b_step;
  int64_t at = 0;
  // Unrolled so that the end of 64 steps is predicted.
#pragma GCC unroll 4
  for (int64_t k = p.steps; k > 0; --k, b += b_step, at += a_step) {
    V bv[vectors];
#pragma GCC unroll 8
    for (int n = 0; n < vectors; ++n) bv[n] = hn::LoadU(d, b + n * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const V av = hn::Set(d, a[r][at]);
#pragma GCC unroll 8
      for (int n = 0; n < vectors; ++n) sum[r][n] = hn::MulAdd(av, bv[n], sum[r][n]);
    }
  }

  // One test for all the sums: a branch for each costs as much as its addition.
  const auto store = [&](auto finish) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
      for (int n = 0; n < vectors; ++n) {
        float* to = c + r * c_row + n * kLanes;
        hn::StoreU(finish(sum[r][n], to), d, to);
      }
    }
  };
  if (p.into == Into::kFolded) {
    store([d](V x, const float* to) { return hn::Add(hn::LoadU(d, to), x); });
  } else if (p.into == Into::kScaled) {
    const V scale = hn::Set(d, p.scale);
    store([scale](V x, const float*) { return hn::Mul(x, scale); });
  } else {
    store([](V x, const float*) { return x; });
  }
}

template <int rows>
void tile_row(Product p, int64_t vectors) {
  const auto step = [&](int64_t n) {
    p.b += n * kLanes;
    p.c += n * kLanes;
    vectors -= n;
  };
  for (; vectors >= kTileVectors; step(kTileVectors)) tile<rows, kTileVectors>(p);
  if (vectors >= 2) {
    tile<rows, 2>(p);
    step(2);
  }
  if (vectors >= 1) tile<rows, 1>(p);
}

/// The 4 elements at `at` of kLanes / 4 rows, `step` elements apart, as one vector of blocks.
template <class DV>
HWY_INLINE hn::Vec<DV> load_blocks(DV d, const float* const* rows, int64_t step, int64_t at) {
  if constexpr (hn::MaxLanes(DV()) == 4) {
    return hn::LoadU(d, rows[0] + at);
  } else {
    const hn::Half<DV> h;
    constexpr int64_t kBlocks = hn::MaxLanes(DV()) / 4;
    return hn::Combine(d, load_blocks(h, rows + kBlocks / 2 * step, step, at),
                       load_blocks(h, rows, step, at));
  }
}

/// out[c][i] = rows[i][c] for kLanes rows and 4 columns from c.
HWY_INLINE void transpose_four(const float* const* rows, int64_t c, float* out, int64_t stride) {
  const D d;
  const hn::Repartition<uint64_t, D> d64;
  const V r0 = load_blocks(d, rows, 4, c), r1 = load_blocks(d, rows + 1, 4, c);
  const V r2 = load_blocks(d, rows + 2, 4, c), r3 = load_blocks(d, rows + 3, 4, c);
  const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d, r0, r1));
  const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(d, r0, r1));
  const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d, r2, r3));
  const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(d, r2, r3));
  out += c * stride;
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, low01, low23)), d, out);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, low01, low23)), d, out + stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, high01, high23)), d, out + 2 * stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, high01, high23)), d, out + 3 * stride);
}

}  // namespace

void product(const Product& p, int64_t rows, int64_t vectors) {
  switch (rows) {
    case 1:
      return tile_row<1>(p, vectors);
    case 2:
      return tile_row<2>(p, vectors);
    case 3:
      return tile_row<3>(p, vectors);
    case 4:
      return tile_row<4>(p, vectors);
    default:
      return tile_row<kTileRows>(p, vectors);
  }
}

void pack_transposed(Heads<const float> x, int64_t first, int64_t count, int64_t head, float* out) {
  for (int64_t i = 0; i < count; i += kLanes) {
    std::array<const float*, kLanes> rows;
    for (int64_t r = 0; r < kLanes; ++r) {
      rows[static_cast<size_t>(r)] = x.at(first + std::min(i + r, count - 1), head);
    }
    int64_t c = 0;
    for (; c + 4 <= x.dim; c += 4) transpose_four(rows.data(), c, out + i, kKeyBlock);
    for (; c < x.dim; ++c) {
      for (int64_t r = 0; r < kLanes; ++r) {
        out[c * kKeyBlock + i + r] = rows[static_cast<size_t>(r)][c];
      }
    }
  }
}

}  // namespace attn
}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
