#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul_tokens.cpp"
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include <hwy/foreach_target.h>  // compiles this file once per target
#include <hwy/highway.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/matmul-inl.h"
#include "kernels/cpu/matmul_plan.h"
#include "kernels/cpu/token_sum-inl.h"
#include "src/base/thread_pool.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {
namespace {

/// Whether the target converts float to int64 by itself.
constexpr bool kDirect = HWY_TARGET == HWY_AVX3;

using Half = hn::Vec<hn::Half<Simd::D>>;
using DI64 = hn::Repartition<int64_t, Simd::D>;

/// a 2^S, rounded to nearest, ties to even; below 2^51 where the target does not convert.
HWY_INLINE hn::Vec<DI64> round_small(Half a, double unit) {
#if HWY_TARGET == HWY_AVX3
  // The product is exact, or so small that it rounds to 0.
  const auto scaled = hn::Mul(a, hn::Set(hn::Half<Simd::D>(), static_cast<float>(unit)));
  return hn::Vec<DI64>{_mm512_cvtps_epi64(scaled.raw)};
#else
  // One fused multiply-add with 1.5 2^52 rounds; its bits are those of 1.5 2^52 plus the integer.
  const hn::Repartition<double, Simd::D> dd;
  const auto shift = hn::Set(dd, 0x1.8p52);
  const auto sum = hn::MulAdd(hn::PromoteTo(dd, a), hn::Set(dd, unit), shift);
  return hn::Sub(hn::BitCast(DI64(), sum), hn::BitCast(DI64(), shift));
#endif
}

/// Adds the contributions of leaves to sums of int64.
class LeafRounding {
 public:
  explicit LeafRounding(const TokenRounding& rounding)
      : rounding_(rounding),
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

  /// sum[0..kPanel) += values[0..kPanel), which are small.
  HWY_INLINE void add_row(const float* HWY_RESTRICT values, int64_t* HWY_RESTRICT sum) const {
    const hn::Half<Simd::D> d;
    const DI64 di64;
    constexpr int64_t kHalf = kLanes / 2;
#pragma GCC unroll 4
    for (int64_t i = 0; i < kPanel; i += kHalf) {
      const auto rounded = round_small(hn::Load(d, values + i), rounding_.unit);
      hn::StoreU(hn::Add(hn::LoadU(di64, sum + i), rounded), di64, sum + i);
    }
  }

  /// Adds `rows` rows of any values; false if one was rejected.
  HWY_NOINLINE bool add_large(const float* values, int64_t rows, int64_t* sum,
                              int64_t stride) const {
    TokenVector rounding(rounding_);
    for (int64_t r = 0; r < rows; ++r, sum += stride) {
      for (int64_t i = 0; i < kPanel; i += kLanes, values += kLanes) {
        rounding.add(hn::Load(Simd::D(), values), sum + i);
      }
    }
    return !rounding.rejected();
  }

 private:
  TokenRounding rounding_;
  int32_t small_bits_;  // magnitudes below are accepted, and small enough for round_small
};

/// The values of a leaf that are not yet in its sums: the next leaf's chain hides their addition.
struct Pending {
  HWY_ALIGN float values[kTileRows * kPanel];
  int64_t* sum = nullptr;
  int64_t stride = 0;
  int64_t rows = 0;

  void add(int64_t first, const LeafRounding& rounding) {
    for (int64_t r = first; r < rows; ++r) rounding.add_row(values + r * kPanel, sum + r * stride);
  }
  void finish(const LeafRounding& rounding) {
    add(0, rounding);
    rows = 0;
  }
};

/// Adds what is pending, and leaves one leaf of `tokens` tokens pending for `sum`; false if a
/// contribution was rejected. fetch: whether the sums are not yet in the cache.
using Leaf = bool (*)(const float* a, const float* b, int64_t tokens, const LeafRounding& rounding,
                      int64_t* sum, int64_t stride, bool fetch, Pending& pending);

template <int kRows>
HWY_NOINLINE bool leaf(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int64_t tokens,
                       const LeafRounding& rounding, int64_t* sum, int64_t stride, bool fetch,
                       Pending& pending) {
  const Simd::D d;
  Simd::F acc[kRows][2];
  clear<kRows, 1>(acc);
  // A row at a time, spread over the chain: at once they would hold up its own loads.
  const int64_t run = tokens / kRows;
  for (int r = 0; r < kRows; ++r, a += run * kRows, b += run * kPanel) {
    if (fetch) {
      for (int64_t i = 0; i < kPanel; i += 8) hwy::Prefetch(sum + r * stride + i);
    }
    if (r < pending.rows) {
      rounding.add_row(pending.values + r * kPanel, pending.sum + r * pending.stride);
    }
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
    return rounding.add_large(pending.values, kRows, sum, stride);
  }
  pending.sum = sum;
  pending.stride = stride;
  pending.rows = kRows;
  return true;
}

template <int... kRow>
constexpr std::array<Leaf, sizeof...(kRow)> all_leaves(std::integer_sequence<int, kRow...>) {
  return {leaf<kRow + 1>...};
}

Leaf choose_leaf(int64_t rows) {
  static constexpr auto kLeaves = all_leaves(std::make_integer_sequence<int, kTileRows>());
  return kLeaves[static_cast<size_t>(rows - 1)];
}

/// to[i][0..width) = from[rows[i]][first .. first + count), the rest of the width +0.
void copy_columns(const Matrix<const float>& from, std::span<const int64_t> rows, int64_t first,
                  int64_t count, int64_t width, float* HWY_RESTRICT to) {
  const Simd::D wide;
  const hn::FixedTag<float, 4> d;
  for (const int64_t row : rows) {
    const float* HWY_RESTRICT src = from.row(row) + first;
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) hn::StoreU(hn::LoadU(wide, src + i), wide, to + i);
    for (; i + 4 <= count; i += 4) hn::StoreU(hn::LoadU(d, src + i), d, to + i);
    for (; i < count; ++i) to[i] = src[i];
    for (; i < width; ++i) to[i] = 0;
    to += width;
  }
}

/// Leaves whose tokens are packed and summed together: dw is read and written once for them.
struct Chunk {
  std::vector<int64_t> rows;  // of dy and x, leaf after leaf
  std::vector<Range> leaves;  // in `rows`
};

class TokenProduct {
 public:
  TokenProduct(const MatmulTokens& op, ThreadPool& pool)
      : op_(op),
        pool_(pool),
        rounding_(token_rounding(op.dw)),
        tiles_(ceil_div(op.dy.cols, kTileRows)),
        panels_(ceil_div(op.x.cols, kPanel)) {}

  void run(const Chunk& chunk) {
    chunk_ = &chunk;
    const auto rows = static_cast<int64_t>(chunk.rows.size());
    plan_ = plan_token_product(rows, tiles_, panels_, kTileRows, kPanel, pool_.threads());
    x_ = reinterpret_cast<float*>(
        pool_.shared_scratch(static_cast<size_t>(rows * panels_ * kPanel) * sizeof(float)));
    pool_.run(ceil_div(rows, kPackRows), [this](int64_t item, int) { pack_x(item); });
    pool_.run(plan_.groups * plan_.runs,
              [this](int64_t item, int worker) { run_item(item, worker); });
  }

 private:
  static constexpr int64_t kPackRows = 32;  // rows of dy or x that are packed at a time

  /// Rows of the batch that are packed as rows first .. first + kPackRows.
  std::span<const int64_t> rows_from(int64_t first) const {
    const auto all = std::span(chunk_->rows);
    const auto begin = static_cast<size_t>(first);
    return all.subspan(begin, std::min<size_t>(kPackRows, all.size() - begin));
  }

  void pack_x(int64_t item) const {
    const auto rows = static_cast<int64_t>(chunk_->rows.size());
    const int64_t first = item * kPackRows;
    for (int64_t panel = 0; panel < panels_; ++panel) {
      const int64_t count = std::min(op_.x.cols - panel * kPanel, kPanel);
      copy_columns(op_.x, rows_from(first), panel * kPanel, count, kPanel,
                   x_ + (panel * rows + first) * kPanel);
    }
  }

  void run_item(int64_t item, int worker) const {
    const Range tiles = piece(tiles_, plan_.groups, item / plan_.runs);
    const Range panels = piece(panels_, plan_.runs, item % plan_.runs);
    const auto rows = static_cast<int64_t>(chunk_->rows.size());
    const Range cols = {piece(op_.dy.cols, tiles_, tiles.begin).begin,
                        piece(op_.dy.cols, tiles_, tiles.end - 1).end};
    auto* dy = reinterpret_cast<float*>(
        pool_.scratch(worker, static_cast<size_t>(rows * cols.size()) * sizeof(float)));
    for (int64_t first = 0; first < rows; first += kPackRows) {
      const auto sources = rows_from(first);
      for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
        const Range n = piece(op_.dy.cols, tiles_, tile);
        copy_columns(op_.dy, sources, n.begin, n.size(), n.size(),
                     dy + (n.begin - cols.begin) * rows + first * n.size());
      }
    }
    Pending pending;
    for (int64_t first = panels.begin; first < panels.end; first += plan_.cached_panels) {
      const int64_t last = std::min(panels.end, first + plan_.cached_panels);
      for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
        const Range n = piece(op_.dy.cols, tiles_, tile);
        for (int64_t panel = first; panel < last; ++panel) {
          run_tile(n, dy + (n.begin - cols.begin) * rows, panel, pending);
        }
      }
    }
    pending.finish(rounding_);
  }

  void run_tile(Range n, const float* dy, int64_t panel, Pending& pending) const {
    const int64_t col = panel * kPanel;
    const int64_t cols = std::min(op_.x.cols - col, kPanel);
    const float* x = x_ + panel * static_cast<int64_t>(chunk_->rows.size()) * kPanel;
    if (cols == kPanel) {
      int64_t* sum = op_.dw.sum.row(n.begin) + col;
      add_leaves(n.size(), dy, x, sum, op_.dw.sum.stride, true, pending);
      return;
    }
    HWY_ALIGN int64_t tile[kTileRows * kPanel] = {};
    add_leaves(n.size(), dy, x, tile, kPanel, false, pending);
    pending.finish(rounding_);
    for (int64_t r = 0; r < n.size(); ++r) {
      int64_t* sum = op_.dw.sum.row(n.begin + r) + col;
      for (int64_t i = 0; i < cols; ++i) sum[i] = add_wrapping(sum[i], tile[r * kPanel + i]);
    }
  }

  void add_leaves(int64_t rows, const float* dy, const float* x, int64_t* sum, int64_t stride,
                  bool fetch, Pending& pending) const {
    const Leaf leaf = choose_leaf(rows);
    bool accepted = true;
    for (const Range& tokens : chunk_->leaves) {
      accepted &= leaf(dy + tokens.begin * rows, x + tokens.begin * kPanel, tokens.size(),
                       rounding_, sum, stride, fetch, pending);
      fetch = false;
    }
    if (!accepted) raise_overflow(op_.dw.overflow);
  }

  const MatmulTokens& op_;
  ThreadPool& pool_;
  const LeafRounding rounding_;
  const int64_t tiles_;
  const int64_t panels_;
  TokenPlan plan_;
  const Chunk* chunk_ = nullptr;
  float* x_ = nullptr;
};

void matmul_tokens(const MatmulTokens& op, ThreadPool& pool) {
  constexpr size_t kChunkRows = 1024;
  check_shapes(op);
  if (op.dw.sum.rows == 0 || op.dw.sum.cols == 0) return;
  TokenProduct product(op, pool);
  Chunk chunk;
  const auto finish = [&] {
    if (!chunk.leaves.empty()) product.run(chunk);
    chunk = {};
  };
  for (const Range& leaf : op.leaves) {
    if (leaf.size() == 0) continue;
    const auto begin = static_cast<int64_t>(chunk.rows.size());
    chunk.leaves.push_back({begin, begin + leaf.size()});
    for (int64_t row = leaf.begin; row < leaf.end; ++row) chunk.rows.push_back(row);
    if (chunk.rows.size() >= kChunkRows) finish();
  }
  finish();
}

}  // namespace

void fill_matmul_tokens(KernelSet& set) { set.matmul_tokens = matmul_tokens; }

}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rlreplay::kernels::cpu {

void add_matmul_tokens(KernelSet& set, int64_t target) {
  choose(target, HWY_CHOOSE_AVX3(fill_matmul_tokens), HWY_CHOOSE_AVX2(fill_matmul_tokens),
         HWY_CHOOSE_NEON(fill_matmul_tokens))(set);
}

}  // namespace rlreplay::kernels::cpu
#endif
