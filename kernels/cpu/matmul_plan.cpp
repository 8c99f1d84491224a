#include "kernels/cpu/matmul_plan.h"

#include <bit>

namespace rlreplay::kernels::cpu {
namespace {

constexpr int64_t kBlockFloats = int64_t{4} << 20;  // of packed x: less than a last-level cache
constexpr int64_t kGroupFloats = 130 << 10;         // of a group of panels: half of an L2 cache
constexpr int64_t kBlockK = 512;                    // k of a step block at most
constexpr int64_t kChunkTiles = 22;                 // of an item that leaves sums of tiles open
constexpr int64_t kItems = 8;                       // a thread, so that none waits long at the end

}  // namespace

std::vector<LeafStep> leaf_steps(const DotOrder& order) {
  std::vector<LeafStep> steps;
  for (size_t s = 0; s < order.segments.size(); ++s) {
    const size_t begin = steps.size();
    for (const Range& range : order.segments[s]) {
      for (int64_t k = range.begin; k < range.end; k += kDotLeaf) {
        steps.push_back({{k, std::min(range.end, k + kDotLeaf)}, false, 0});
      }
    }
    if (steps.size() == begin) steps.push_back({});
    steps[begin].first = true;
    // Segment s closes one subtree per trailing one of its number.
    steps.back().merges = std::countr_one(s);
  }
  return steps;
}

int64_t stack_depth(const DotOrder& order) {
  return static_cast<int64_t>(std::bit_width(order.segments.size()));
}

std::vector<StepBlock> step_blocks(const std::vector<LeafStep>& steps, int64_t most_k) {
  std::vector<StepBlock> blocks(1);
  int64_t k = 0, open = 0;
  for (const LeafStep& step : steps) {
    if (k > 0 && k + step.k.size() > most_k) {
      const int64_t begin = blocks.back().steps.end;
      blocks.push_back({{begin, begin}, open});
      k = 0;
    }
    ++blocks.back().steps.end;
    k += step.k.size();
    open += (step.first ? 1 : 0) - step.merges;
  }
  return blocks;
}

ProductPlan plan_product(int64_t rows, int64_t n, int64_t k, int64_t tile_rows, int64_t panel,
                         int64_t step, int threads) {
  ProductPlan plan;
  if (rows == 0 || n == 0) return plan;
  plan.panels = ceil_div(n, panel);
  const int64_t block_rows = std::max(kBlockFloats / std::max<int64_t>(k, 1), 8 * tile_rows);
  plan.blocks = ceil_div(rows, block_rows);
  const int64_t tiles = ceil_div(ceil_div(rows, plan.blocks), tile_rows);
  if (tiles == 1) {  // nothing is read twice
    plan.group = step;
    plan.block_k = k;
  } else {
    plan.block_k = std::clamp<int64_t>(k, 1, kBlockK);
    plan.group = std::clamp<int64_t>(kGroupFloats / (plan.block_k * panel), 1, 16);
  }
  plan.groups = ceil_div(plan.panels, plan.group);
  plan.chunks = k > plan.block_k ? ceil_div(tiles, kChunkTiles) : 1;
  if (threads > 1) plan.chunks = std::max(plan.chunks, ceil_div(kItems * threads, plan.groups));
  plan.chunks = std::min(plan.chunks, tiles);
  return plan;
}

TokenPlan plan_token_product(int64_t tokens, int64_t tiles, int64_t panels, int64_t tile_rows,
                             int64_t panel, int threads) {
  const int64_t group = std::clamp<int64_t>(kGroupFloats / (tokens * tile_rows), 1, 32);
  TokenPlan plan;
  plan.groups = ceil_div(tiles, group);
  plan.cached_panels = std::max<int64_t>(kGroupFloats / 2 / (tokens * panel), 1);
  if (threads > 1) {
    // More groups first: every run of a group packs its dy again, so one has 8 panels at least.
    const int64_t items = kItems * threads;
    plan.groups = std::max(plan.groups, std::min(tiles, items));
    const int64_t most = std::max<int64_t>(panels / 8, 1);
    plan.runs = std::clamp<int64_t>(ceil_div(items, plan.groups), 1, most);
  }
  return plan;
}

}  // namespace rlreplay::kernels::cpu
