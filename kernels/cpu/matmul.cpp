#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul.cpp"
#include <algorithm>
#include <array>
#include <utility>

#include <hwy/foreach_target.h>  // compiles this file once per target
#include <hwy/highway.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/matmul-inl.h"
#include "kernels/cpu/matmul_plan.h"
#include "src/base/error.h"
#include "src/base/thread_pool.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {
namespace {

/// tile (+)= one leaf. tile: [rows][panels][kPanel]; `first` adds to +0 instead of to the tile.
using Leaf = void (*)(const float* a, const float* b, int64_t panel_stride, int64_t k, bool first,
                      float* tile);

template <int kRows, int kPanels>
HWY_NOINLINE void leaf(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                       int64_t panel_stride, int64_t k, bool first, float* HWY_RESTRICT tile) {
  const Simd::D d;
  Simd::F acc[kRows][2 * kPanels];
  clear<kRows, kPanels>(acc);
  chain<kRows, kPanels>(a, b, panel_stride, k, acc);
  if (first) {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < 2 * kPanels; ++v, tile += kLanes) {
        hn::Store(hn::Add(hn::Zero(d), acc[r][v]), d, tile);
      }
    }
  } else {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < 2 * kPanels; ++v, tile += kLanes) {
        hn::Store(hn::Add(hn::Load(d, tile), acc[r][v]), d, tile);
      }
    }
  }
}

/// Panels that a tile of few rows takes at once, so that enough chains run beside each other.
constexpr int step_panels(int64_t rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

template <int... kRow>
constexpr std::array<Leaf, sizeof...(kRow)> one_panel(std::integer_sequence<int, kRow...>) {
  return {leaf<kRow + 1, 1>...};
}

Leaf choose_leaf(int64_t rows, int64_t panels) {
  static constexpr auto kOne = one_panel(std::make_integer_sequence<int, kTileRows>());
  if (panels == 1) return kOne[static_cast<size_t>(rows - 1)];
  return rows == 1 ? leaf<1, 4> : rows == 2 ? leaf<2, 2> : leaf<3, 2>;
}

void add_tile(float* HWY_RESTRICT to, const float* HWY_RESTRICT from, int64_t size) {
  const Simd::D d;
  for (int64_t i = 0; i < size; i += kLanes) {
    hn::Store(hn::Add(hn::Load(d, to + i), hn::Load(d, from + i)), d, to + i);
  }
}

/// y[0..n) = sum (+ bias) (+ residual).
HWY_INLINE void finish_row(const float* HWY_RESTRICT sum, const float* bias, const float* residual,
                           int64_t n, float* y) {
  const Simd::D d;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    auto out = hn::Load(d, sum + i);
    if (bias != nullptr) out = hn::Add(out, hn::LoadU(d, bias + i));
    if (residual != nullptr) out = hn::Add(out, hn::LoadU(d, residual + i));
    hn::StoreU(out, d, y + i);
  }
  for (; i < n; ++i) {
    float out = sum[i];
    if (bias != nullptr) out += bias[i];
    if (residual != nullptr) out += residual[i];
    y[i] = out;
  }
}

/// One product: the packed rows of a block times the panels of the weight.
class Product {
 public:
  Product(const Matmul& op, ThreadPool& pool)
      : op_(op),
        pool_(pool),
        steps_(leaf_steps(*op.order)),
        depth_(stack_depth(*op.order)),
        plan_(plan_product(op.y.rows, op.y.cols, op.x.cols, kTileRows, kPanel,
                           step_panels(op.y.rows), pool.threads())),
        blocks_(step_blocks(steps_, plan_.block_k)) {}

  void run() {
    for (int64_t block = 0; block < plan_.blocks; ++block) {
      rows_ = piece(op_.y.rows, plan_.blocks, block);
      tiles_ = ceil_div(rows_.size(), kTileRows);
      packed_ = reinterpret_cast<float*>(
          pool_.shared_scratch(static_cast<size_t>(rows_.size() * op_.x.cols) * sizeof(float)));
      pool_.run(tiles_, [this](int64_t tile, int) { pack_tile(tile); });
      pool_.run(plan_.groups * plan_.chunks,
                [this](int64_t item, int worker) { run_item(item, worker); });
    }
  }

 private:
  Range tile_rows(int64_t tile) const {
    const Range in_block = piece(rows_.size(), tiles_, tile);
    return {rows_.begin + in_block.begin, rows_.begin + in_block.end};
  }
  float* packed_tile(Range rows) const { return packed_ + (rows.begin - rows_.begin) * op_.x.cols; }

  void pack_tile(int64_t tile) const {
    const Range rows = tile_rows(tile);
    transpose(op_.x.row(rows.begin), op_.x.stride, rows.size(), op_.x.cols, packed_tile(rows),
              rows.size());
  }

  void run_item(int64_t item, int worker) const {
    const int64_t group = item / plan_.chunks;
    const Range tiles = piece(tiles_, plan_.chunks, item % plan_.chunks);
    const Range panels = {group * plan_.group, std::min(plan_.panels, (group + 1) * plan_.group)};
    const int64_t step = step_panels(op_.y.rows);
    const bool one_block = blocks_.size() == 1;
    // A stack of tiles for each tile that stays open between step blocks.
    const int64_t stack_size = depth_ * kTileRows * step * kPanel;
    const int64_t stacks = one_block ? 1 : tiles.size() * panels.size();
    auto* const first = reinterpret_cast<float*>(
        pool_.scratch(worker, static_cast<size_t>(stacks * stack_size) * sizeof(float)));
    for (const StepBlock& block : blocks_) {
      float* stack = first;
      const auto run = [&](Range rows, int64_t panel, int64_t count) {
        add_block(block, rows, panel, count, stack);
        if (&block == &blocks_.back()) finish_tile(rows, panel, count, stack);
        if (!one_block) stack += stack_size;
      };
      for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
        const Range rows = tile_rows(tile);
        int64_t panel = panels.begin;
        for (; panel + step <= panels.end; panel += step) run(rows, panel, step);
        for (; panel < panels.end; ++panel) run(rows, panel, 1);
      }
    }
  }

  /// Does the steps of a block for `rows` and `panels` panels.
  /// Shapes: a tile of the stack is [rows][panels][kPanel].
  void add_block(const StepBlock& block, Range rows, int64_t panel, int64_t panels,
                 float* stack) const {
    const int64_t stride = op_.w->k * kPanel;
    const Leaf leaf = choose_leaf(rows.size(), panels);
    const float* a = packed_tile(rows);
    const float* b = op_.w->data.data() + panel * stride;
    const int64_t size = rows.size() * panels * kPanel;
    float* top = stack + (block.open - 1) * size;
    for (int64_t s = block.steps.begin; s < block.steps.end; ++s) {
      const LeafStep& step = steps_[static_cast<size_t>(s)];
      if (step.first) top += size;
      leaf(a + step.k.begin * rows.size(), b + step.k.begin * kPanel, stride, step.k.size(),
           step.first, top);
      for (int i = 0; i < step.merges; ++i, top -= size) add_tile(top - size, top, size);
    }
  }

  void finish_tile(Range rows, int64_t panel, int64_t panels, const float* sum) const {
    const int64_t col = panel * kPanel;
    const int64_t n = std::min(op_.y.cols - col, panels * kPanel);
    for (int64_t r = rows.begin; r < rows.end; ++r, sum += panels * kPanel) {
      finish_row(sum, op_.bias == nullptr ? nullptr : op_.bias + col,
                 op_.residual.data == nullptr ? nullptr : op_.residual.row(r) + col, n,
                 op_.y.row(r) + col);
    }
  }

  const Matmul& op_;
  ThreadPool& pool_;
  const std::vector<LeafStep> steps_;
  const int64_t depth_;
  const ProductPlan plan_;
  const std::vector<StepBlock> blocks_;
  Range rows_;  // of the current block
  int64_t tiles_ = 0;
  float* packed_ = nullptr;
};

void matmul(const Matmul& op, ThreadPool& pool) {
  check_shapes(op);
  check(op.w->panel == kPanel, "the weight was packed by another kernel set");
  Product(op, pool).run();
}

}  // namespace

void fill_matmul(KernelSet& set) { set.matmul = matmul; }

}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rlreplay::kernels::cpu {

void add_matmul(KernelSet& set, int64_t target) {
  choose(target, HWY_CHOOSE_AVX3(fill_matmul), HWY_CHOOSE_AVX2(fill_matmul),
         HWY_CHOOSE_NEON(fill_matmul))(set);
}

}  // namespace rlreplay::kernels::cpu
#endif
