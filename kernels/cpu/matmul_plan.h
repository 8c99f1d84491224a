#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/order.h"

/// How the SIMD products are cut into pieces of work; no choice made here can change a bit.
namespace rlreplay::kernels::cpu {

/// Piece i of n elements in `pieces` pieces that differ by at most one.
[[nodiscard]] inline Range piece(int64_t n, int64_t pieces, int64_t i) {
  return segment(n, pieces, i);
}

/// One leaf of a DotOrder, in the order of execution. Tiles of partial sums lie on a stack: a leaf
/// with `first` pushes +0 before it is added to the top; then the top is added to the one below
/// `merges` times. One tile is left: the sum.
struct LeafStep {
  Range k;  // empty for a segment without leaves
  bool first = false;
  int merges = 0;
};

/// The steps of an order: its leaves, segment by segment.
[[nodiscard]] std::vector<LeafStep> leaf_steps(const DotOrder& order);

/// Tiles that are on the stack at most.
[[nodiscard]] int64_t stack_depth(const DotOrder& order);

/// Consecutive steps whose part of a panel and of a row tile stays in the cache, and the number of
/// tiles that are on the stack before them.
struct StepBlock {
  Range steps;
  int64_t open = 0;
};

/// Cuts steps into blocks of at most `most_k` k.
[[nodiscard]] std::vector<StepBlock> step_blocks(const std::vector<LeafStep>& steps,
                                                 int64_t most_k);

/// The work of y [M, N]: blocks of rows whose x is packed at once; in a block, an item of the pool
/// is one of `chunks` runs of row tiles with one group of panels. An item does its step blocks one
/// after the other, each for all of its tiles and panels.
struct ProductPlan {
  int64_t blocks = 0;
  int64_t panels = 0;
  int64_t group = 1;  // panels of a group: they stay in the cache while the row tiles pass
  int64_t groups = 0;
  int64_t chunks = 1;
  int64_t block_k = 0;  // k of a step block at most
};

/// tile_rows: rows of the largest tile; panel: columns of a panel; step: panels that a tile of few
/// rows takes at once.
[[nodiscard]] ProductPlan plan_product(int64_t rows, int64_t n, int64_t k, int64_t tile_rows,
                                       int64_t panel, int64_t step, int threads);

/// The work of dw [N, K]: an item of the pool is a group of row tiles (of N), whose dy the worker
/// packs, with one of `runs` runs of panels (of K).
struct TokenPlan {
  int64_t groups = 0;
  int64_t runs = 1;
  int64_t cached_panels = 1;  // of x, that stay in the cache while the tiles pass
};

/// tile_rows, panel: as of plan_product; `tiles` of N and `panels` of K are how many there are.
[[nodiscard]] TokenPlan plan_token_product(int64_t tokens, int64_t tiles, int64_t panels,
                                           int64_t tile_rows, int64_t panel, int threads);

}  // namespace rlreplay::kernels::cpu
