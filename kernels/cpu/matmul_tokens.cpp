#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul_tokens.cpp"
#include <algorithm>
#include <array>
#include <vector>

#include <hwy/foreach_target.h>  // compiles this file once per target
#include <hwy/highway.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/matmul_plan.h"
#include "kernels/cpu/token_leaf-inl.h"
#include "src/base/thread_pool.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {
namespace {

/// to[0..width) = src[0..count), the rest +0.
HWY_INLINE void copy_row(const float* HWY_RESTRICT src, int64_t count, int64_t width,
                         float* HWY_RESTRICT to) {
  const Simd::D wide;
  const hn::FixedTag<float, 4> d;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(hn::LoadU(wide, src + i), wide, to + i);
  for (; i + 4 <= count; i += 4) hn::StoreU(hn::LoadU(d, src + i), d, to + i);
  for (; i < count; ++i) to[i] = src[i];
  for (; i < width; ++i) to[i] = 0;
}

/// Leaves whose tokens are packed and summed together: dw is read and written once for them.
struct Chunk {
  std::vector<int64_t> rows;  // of dy and x, leaf after leaf
  std::vector<Range> leaves;  // in `rows`
};

/// Whether a sum is too large to stay in a cache until it is wanted again: it is then written past
/// the cache, in whole lines.
bool streamable(const Matrix<int64_t>& sum) {
  constexpr int64_t kLarge = int64_t{1} << 18;  // 2 MiB
  constexpr size_t kLine = 64;
  return sum.rows * sum.cols >= kLarge && sum.stride % (kLine / sizeof(int64_t)) == 0 &&
         reinterpret_cast<uintptr_t>(sum.data) % kLine == 0;
}

/// Adds dy^T x over chunks of leaves to integer sums. Of a chunk x is packed once, for all threads;
/// then each item, some tiles of dy by some panels of x, packs its part of dy and writes its own
/// part of dw, which no other item writes.
class TokenProduct {
 public:
  TokenProduct(const MatmulTokens& op, ThreadPool& pool)
      : op_(op),
        pool_(pool),
        rounding_(token_rounding(op.dw), op.dw),
        tiles_(ceil_div(op.dy.cols, kTileRows)),
        panels_(ceil_div(op.x.cols, kPanel)),
        accumulate_(op.accumulate) {}

  void run(const Chunk& chunk) {
    chunk_ = &chunk;
    stream_ = !accumulate_ && streamable(op_.dw.sum);
    const auto rows = static_cast<int64_t>(chunk.rows.size());
    plan_ = plan_token_product(rows, tiles_, panels_, kTileRows, kPanel, pool_.threads());
    x_ = reinterpret_cast<float*>(
        pool_.shared_scratch(static_cast<size_t>(rows * panels_ * kPanel) * sizeof(float)));
    pool_.run(ceil_div(rows, kPackRows), [this](int64_t item, int) { pack_x(item); });
    pool_.run(plan_.groups * plan_.runs,
              [this](int64_t item, int worker) { run_item(item, worker); });
    accumulate_ = true;
  }

  /// Whether no chunk has written the sums that are not to be added to.
  bool unwritten() const { return !accumulate_; }

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
      float* to = x_ + (panel * rows + first) * kPanel;
      for (const int64_t row : rows_from(first)) {
        copy_row(op_.x.row(row) + panel * kPanel, count, kPanel, to);
        to += kPanel;
      }
    }
  }

  /// Some tiles of dy at a time, so that a row is read in whole cache lines. A row is fetched
  /// kRowsAhead rows before it is copied: behind the last one that is the beginning of these rows,
  /// of the tiles that come next (or, of few rows, one that is read anyway).
  void pack_dy(Range tiles, float* dy) const {
    constexpr int64_t kTiles = 4, kRowsAhead = 24;
    const auto rows = static_cast<int64_t>(chunk_->rows.size());
    const auto row = [&](int64_t r) { return op_.dy.row(chunk_->rows[static_cast<size_t>(r)]); };
    std::array<int64_t, kTiles + 1> cuts{piece(op_.dy.cols, tiles_, tiles.begin).begin};
    for (int64_t tile = tiles.begin; tile < tiles.end; tile += kTiles) {
      const auto count = static_cast<size_t>(std::min(kTiles, tiles.end - tile));
      for (size_t t = 0; t < count; ++t) {
        cuts[t + 1] = piece(op_.dy.cols, tiles_, tile + static_cast<int64_t>(t)).end;
      }
      for (int64_t r = 0; r < rows; ++r) {
        const bool here = r + kRowsAhead < rows;  // else among the next tiles
        const int64_t ahead = here ? r + kRowsAhead : std::min(r + kRowsAhead - rows, r);
        const float* soon = row(ahead) + cuts[here ? 0 : count];
        for (int64_t i = 0; i < kTiles * kTileRows; i += kLanes) hwy::Prefetch(soon + i);
        const float* src = row(r);
        float* to = dy;
        for (size_t t = 0; t < count; ++t) {
          const int64_t width = cuts[t + 1] - cuts[t];
          copy_row(src + cuts[t], width, width, to + r * width);
          to += rows * width;
        }
      }
      dy += rows * (cuts[count] - cuts[0]);
      cuts[0] = cuts[count];
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
    pack_dy(tiles, dy);
    Pending pending;
    HWY_ALIGN int64_t tile_sums[kTileRows * kPanel];
    for (int64_t first = panels.begin; first < panels.end; first += plan_.cached_panels) {
      const int64_t last = std::min(panels.end, first + plan_.cached_panels);
      for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
        const Range n = piece(op_.dy.cols, tiles_, tile);
        for (int64_t panel = first; panel < last; ++panel) {
          run_tile(n, dy + (n.begin - cols.begin) * rows, panel, tile_sums, pending);
        }
      }
    }
    pending.finish(rounding_);
    if (stream_) hwy::FlushStream();
  }

  void run_tile(Range n, const float* dy, int64_t panel, int64_t* tile, Pending& pending) const {
    const int64_t col = panel * kPanel;
    const int64_t cols = std::min(op_.x.cols - col, kPanel);
    const float* x = x_ + panel * static_cast<int64_t>(chunk_->rows.size()) * kPanel;
    const int64_t element = op_.dw.element(n.begin, col);
    if (cols == kPanel) {
      int64_t* sum = op_.dw.sum.row(n.begin) + col;
      const int64_t stride = op_.dw.sum.stride;
      add_leaves(n.size(), dy, x,
                 {accumulate_ ? sum : nullptr, stride, sum, stride, stream_, element}, tile,
                 pending);
      return;
    }
    add_leaves(n.size(), dy, x, {nullptr, 0, tile, kPanel, false, element}, tile, pending);
    pending.finish(rounding_);
    for (int64_t r = 0; r < n.size(); ++r) {
      int64_t* sum = op_.dw.sum.row(n.begin + r) + col;
      for (int64_t i = 0; i < cols; ++i) {
        sum[i] = add_wrapping(accumulate_ ? sum[i] : 0, tile[r * kPanel + i]);
      }
    }
  }

  /// Between the first leaf and the last the sums lie in `tile`.
  void add_leaves(int64_t rows, const float* dy, const float* x, const Sums& sums, int64_t* tile,
                  Pending& pending) const {
    const Leaf leaf = choose_leaf(rows);
    Sums now = sums;
    for (size_t i = 0; i < chunk_->leaves.size(); ++i) {
      const Range& tokens = chunk_->leaves[i];
      const bool last = i + 1 == chunk_->leaves.size();
      now.to = last ? sums.to : tile;
      now.to_stride = last ? sums.to_stride : kPanel;
      now.stream = last && sums.stream;
      const bool fetch = i == 0 && sums.from != nullptr;
      leaf(dy + tokens.begin * rows, x + tokens.begin * kPanel, tokens.size(), rounding_, now,
           fetch, pending);
      now.from = tile;
      now.from_stride = kPanel;
    }
  }

  const MatmulTokens& op_;
  ThreadPool& pool_;
  const LeafRounding rounding_;
  const int64_t tiles_;
  const int64_t panels_;
  TokenPlan plan_;
  bool accumulate_;      // of this chunk
  bool stream_ = false;  // of this chunk
  const Chunk* chunk_ = nullptr;
  float* x_ = nullptr;
};

void matmul_tokens(const MatmulTokens& op, ThreadPool& pool) {
  constexpr size_t kChunkRows = 1024;  // bounds what is packed at once
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
  if (product.unwritten()) {
    for (int64_t r = 0; r < op.dw.sum.rows; ++r) std::fill_n(op.dw.sum.row(r), op.dw.sum.cols, 0);
  }
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
