#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_forward.cpp"
#include <algorithm>
#include <limits>
#include <vector>

#include <hwy/foreach_target.h>  // compiles this file once per target
#include <hwy/highway.h>

#include "kernels/cpu/attention-inl.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dispatch.h"
#include "src/base/thread_pool.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {
namespace attn {
namespace {

constexpr int64_t kMaxRows = 512;    // query rows (queries times heads) of an item
constexpr int64_t kMaxBlocks = 4;    // query blocks of an item: more of them pack keys less often
constexpr int64_t kFewQueries = 8;   // up to here a sample's splits are items of their own
constexpr int64_t kCopyValues = 32;  // from here on copied values pay
constexpr float kNothing = -std::numeric_limits<float>::infinity();

/// The running softmax of some query rows: maximum, denominator, numerators [rows, padded D].
struct States {
  float* m;
  float* l;
  float* o;

  static int64_t floats(int64_t rows, int64_t width) {
    return 2 * Arena::size(rows + kLanes) + Arena::size(rows * width);
  }
  States(Arena& arena, int64_t rows, int64_t width)
      : m(arena.take(rows + kLanes)), l(arena.take(rows + kLanes)), o(arena.take(rows * width)) {}
};

/// Query rows of one kv head that are computed together: queries inside one split times some heads;
/// row r is query r / heads, head r % heads.
struct Item {
  const AttentionSample* sample;
  int64_t kv_head;
  Range heads;
  Range queries;     // rows of q
  int64_t position;  // of the first one
  Range splits;
  int64_t partial = -1;  // where in the shared scratch the states of splits begin

  int64_t rows() const { return queries.size() * heads.size(); }
  int64_t keys() const { return position + queries.size(); }
  int64_t cost() const {
    return rows() * (std::min(keys(), splits.end * kKeySplit) - splits.begin * kKeySplit);
  }
  int64_t query(int64_t r) const { return queries.begin + r / heads.size(); }
  int64_t head(int64_t r) const { return heads.begin + r % heads.size(); }
  /// The first row that sees the key at `first`.
  int64_t first_row(int64_t first) const {
    return std::max<int64_t>(0, first - position) * heads.size();
  }
  /// How many keys of the block that begins at `first` row r sees.
  int64_t count(int64_t r, int64_t first) const {
    return std::min(kKeyBlock, position + r / heads.size() + 1 - first);
  }
};

/// One block of keys: transposed keys, rows of values.
struct Block {
  const float* keys;
  const float* values;
  int64_t value_step;
};

/// Scores of one row to probabilities relative to m: returns row(p).
HWY_INLINE float probabilities(float* s, int64_t count, float m) {
  const D d;
  std::array<V, kRowLanes / kLanes> lanes;
  for (auto& lane : lanes) lane = hn::Zero(d);
  const V max = hn::Set(d, m);
  const int64_t vectors = ceil_div(count, kLanes);
#pragma GCC unroll 4
  for (int64_t v = 0; v < vectors; ++v) {
    const V p = exp<Simd>(hn::Sub(hn::LoadU(d, s + v * kLanes), max));
    hn::StoreU(p, d, s + v * kLanes);
    auto& lane = lanes[static_cast<size_t>(v) % lanes.size()];
    lane = hn::Add(lane, p);
  }
  return fold_lanes(lanes);
}

/// The maximum of a row's scores; scores of keys that it does not see become -infinity.
HWY_INLINE float mask_and_max(float* s, int64_t count) {
  const D d;
  V max = hn::Set(d, kNothing);
  int64_t at = 0;
  for (; at + kLanes <= count; at += kLanes) max = hn::Max(max, hn::LoadU(d, s + at));
  if (at < count) {
    const auto seen = hn::FirstN(d, static_cast<size_t>(count - at));
    const V x = hn::IfThenElse(seen, hn::LoadU(d, s + at), hn::Set(d, kNothing));
    hn::StoreU(x, d, s + at);
    max = hn::Max(max, x);
  }
  return hn::GetLane(hn::MaxOfLanes(d, max));
}

/// One tile of rows against one block of keys. `first`: position of the block.
void tile_block(const Item& item, const Block& block, int64_t first, int64_t row, int64_t rows,
                const float* q, int64_t size, float scale, States& states) {
  const D d;
  const int64_t width = padded(size);
  HWY_ALIGN float s[kTileRows * kKeyBlock];
  const int64_t most = item.count(row + rows - 1, first);
  product({.a = q + row * width,
           .a_row = width,
           .a_step = 1,
           .b = block.keys,
           .b_step = kKeyBlock,
           .c = s,
           .c_row = kKeyBlock,
           .steps = size,
           .into = Into::kScaled,
           .scale = scale},
          rows, ceil_div(most, kLanes));

  HWY_ALIGN float max[16], alpha[16], sum[16] = {};
  for (int64_t r = 0; r < 16; ++r) max[r] = states.m[row];
  for (int64_t r = 0; r < rows; ++r) {
    max[r] =
        std::max(states.m[row + r], mask_and_max(s + r * kKeyBlock, item.count(row + r, first)));
  }
  for (int64_t r = 0; r < rows; r += kLanes) {
    const V before = hn::LoadU(d, states.m + row + r);
    hn::Store(exp<Simd>(hn::Sub(before, hn::Load(d, max + r))), d, alpha + r);
  }
  for (int64_t r = 0; r < rows; ++r) {
    sum[r] = probabilities(s + r * kKeyBlock, item.count(row + r, first), max[r]);
  }
  for (int64_t r = 0; r < rows; r += kLanes) {
    const V l = hn::LoadU(d, states.l + row + r);
    hn::Store(hn::MulAdd(l, hn::Load(d, alpha + r), hn::Load(d, sum + r)), d, sum + r);
  }
  std::copy(max, max + rows, states.m + row);
  std::copy(sum, sum + rows, states.l + row);

  // The rows' common keys at once, then for each row the others that it sees.
  const int64_t common = item.count(row, first);
  float* o = states.o + row * width;
  product({.a = s,
           .a_row = kKeyBlock,
           .a_step = 1,
           .b = block.values,
           .b_step = block.value_step,
           .c = o,
           .c_row = width,
           .steps = common,
           .into = Into::kContinued,
           .factors = alpha},
          rows, width / kLanes);
  if (common == most) return;
  const float one = 1;
  for (int64_t r = 1; r < rows; ++r) {
    const int64_t more = item.count(row + r, first) - common;
    if (more == 0) continue;
    product({.a = s + r * kKeyBlock + common,
             .a_row = 0,
             .a_step = 1,
             .b = block.values + common * block.value_step,
             .b_step = block.value_step,
             .c = o + r * width,
             .c_row = 0,
             .steps = more,
             .into = Into::kContinued,
             .factors = &one},
            1, width / kLanes);
  }
}

struct Workspace {
  float* q;
  float* keys;
  float* values;

  static int64_t floats(int64_t rows, int64_t size) {
    return Arena::size(rows * padded(size)) + Arena::size(kKeyBlock * size) +
           Arena::size(kKeyBlock * padded(size));
  }
  Workspace(Arena& arena, int64_t rows, int64_t size)
      : q(arena.take(rows * padded(size))),
        keys(arena.take(kKeyBlock * size)),
        values(arena.take(kKeyBlock * padded(size))) {}
};

void run_split(const Item& item, int64_t split, const Workspace& work, States& states) {
  const auto& sample = *item.sample;
  const int64_t size = sample.k.dim, width = padded(size), rows = item.rows();
  const float scale = attention_scale(size);
  std::fill(states.m, states.m + rows, kNothing);
  std::fill(states.l, states.l + rows, 0.0f);
  std::fill(states.o, states.o + rows * width, 0.0f);
  const int64_t end = std::min(item.keys(), (split + 1) * kKeySplit);
  for (int64_t first = split * kKeySplit; first < end; first += kKeyBlock) {
    const int64_t count = std::min(kKeyBlock, end - first);
    pack_transposed(sample.k, first, count, item.kv_head, work.keys);
    Block block{work.keys, sample.v.at(first, item.kv_head), sample.v.stride};
    if (size != width || rows >= kCopyValues) {
      pack_rows(sample.v, first, count, item.kv_head, work.values);
      block.values = work.values;
      block.value_step = width;
    }
    for (int64_t row = item.first_row(first), n; row < rows; row += n) {
      n = tile_rows(rows - row);
      tile_block(item, block, first, row, n, work.q, size, scale, states);
    }
  }
}

/// The states over the splits of `left` and then `right`.
void merge(States& left, const States& right, int64_t rows, int64_t width) {
  const D d;
  HWY_ALIGN float a1[16], a2[16];
  for (int64_t row = 0; row < rows; row += kLanes) {
    const V m1 = hn::LoadU(d, left.m + row), m2 = hn::LoadU(d, right.m + row);
    const V m = hn::Max(m1, m2);
    const V f1 = exp<Simd>(hn::Sub(m1, m)), f2 = exp<Simd>(hn::Sub(m2, m));
    hn::Store(f1, d, a1);
    hn::Store(f2, d, a2);
    hn::StoreU(m, d, left.m + row);
    const V l2 = hn::Mul(hn::LoadU(d, right.l + row), f2);
    hn::StoreU(hn::MulAdd(hn::LoadU(d, left.l + row), f1, l2), d, left.l + row);
    for (int64_t r = 0; r < std::min(kLanes, rows - row); ++r) {
      const V b1 = hn::Set(d, a1[r]), b2 = hn::Set(d, a2[r]);
      float* o1 = left.o + (row + r) * width;
      const float* o2 = right.o + (row + r) * width;
      for (int64_t c = 0; c < width; c += kLanes) {
        const V x = hn::Mul(hn::LoadU(d, o2 + c), b2);
        hn::StoreU(hn::MulAdd(hn::LoadU(d, o1 + c), b1, x), d, o1 + c);
      }
    }
  }
}

void finish(const Attention& op, const Item& item, States& states) {
  const D d;
  const int64_t rows = item.rows(), size = op.q.dim, width = padded(size);
  for (int64_t row = 0; row < rows; row += kLanes) {
    HWY_ALIGN float lse[kLanes], inverse[kLanes];
    const V l = hn::LoadU(d, states.l + row);
    hn::Store(hn::Add(hn::LoadU(d, states.m + row), log<Simd>(l)), d, lse);
    hn::Store(hn::Div(hn::Set(d, 1.0f), l), d, inverse);
    for (int64_t i = 0; i < std::min(kLanes, rows - row); ++i) {
      const int64_t r = row + i;
      float* o = states.o + r * width;
      const V factor = hn::Set(d, inverse[i]);
      for (int64_t c = 0; c < width; c += kLanes) {
        hn::StoreU(hn::Mul(hn::LoadU(d, o + c), factor), d, o + c);
      }
      std::memcpy(op.out.at(item.query(r), item.head(r)), o,
                  static_cast<size_t>(size) * sizeof(float));
      op.lse[item.query(r) * op.q.heads + item.head(r)] = lse[i];
    }
  }
}

int64_t scratch_floats(int64_t rows, int64_t size) {
  return Workspace::floats(rows, size) + 2 * States::floats(rows, padded(size));
}

void run_item(const Attention& op, const Item& item, float* scratch, float* shared) {
  const int64_t rows = item.rows(), size = op.q.dim, width = padded(size);
  Arena arena(scratch);
  const Workspace work(arena, rows, size);
  for (int64_t r = 0; r < rows; ++r) {
    copy_padded(op.q.at(item.query(r), item.head(r)), size, work.q + r * width);
  }
  if (item.partial >= 0) {
    Arena partial(shared + item.partial);
    States states(partial, rows, width);
    return run_split(item, item.splits.begin, work, states);
  }
  States merged(arena, rows, width), states(arena, rows, width);
  run_split(item, item.splits.begin, work, merged);
  for (int64_t split = item.splits.begin + 1; split < item.splits.end; ++split) {
    run_split(item, split, work, states);
    merge(merged, states, rows, width);
  }
  finish(op, item, merged);
}

/// The work of a call: items that any worker may take, then merges of what items left in the
/// shared scratch.
struct Plan {
  std::vector<Item> items;
  std::vector<Item> merges;  // `splits` says how many states begin at `partial`
  int64_t shared = 0;        // floats
  int64_t scratch = 0;       // floats of a worker

  void add(const Item& item, int64_t size) {
    scratch = std::max(scratch, scratch_floats(item.rows(), size));
    if (item.sample->queries.size() > kFewQueries || item.splits.size() == 1) {
      items.push_back(item);
      return;
    }
    Item part = item;
    part.partial = shared;
    merges.push_back(part);
    for (int64_t split = 0; split < item.splits.end; ++split) {
      part.splits = {split, split + 1};
      part.partial = shared;
      shared += States::floats(item.rows(), padded(size));
      items.push_back(part);
    }
  }
};

/// Query blocks of an item: a power of two, so that an item never crosses the border of a split.
int64_t blocks_of_item(int64_t heads) {
  int64_t blocks = kMaxBlocks;
  while (blocks > 1 && blocks * kQueryBlock * heads > kMaxRows) blocks /= 2;
  return blocks;
}

/// Items are cut by the problem: some query blocks of a kv head, and not too many rows.
Plan make_plan(const Attention& op) {
  Plan plan;
  const int64_t kv_heads = op.groups.kv_heads(op.q.heads);
  for (const auto& sample : op.samples) {
    const int64_t end = sample.position + sample.queries.size();
    for (int64_t g = 0; g < kv_heads; ++g) {
      const Range heads = op.groups.query_heads(g, op.q.heads);
      const int64_t size = blocks_of_item(heads.size()) * kQueryBlock;
      for (int64_t at = sample.position, next; at < end; at = next) {
        next = std::min(end, (at / size + 1) * size);
        const int64_t row = sample.queries.begin + at - sample.position;
        const int64_t step = std::max<int64_t>(1, kMaxRows / (next - at));
        for (int64_t h = heads.begin; h < heads.end; h += step) {
          plan.add({&sample,
                    g,
                    {h, std::min(heads.end, h + step)},
                    {row, row + next - at},
                    at,
                    {0, ceil_div(next, kKeySplit)}},
                   op.q.dim);
        }
      }
    }
  }
  // The longest first, so that no worker waits for one at the end.
  std::stable_sort(plan.items.begin(), plan.items.end(),
                   [](const Item& a, const Item& b) { return a.cost() > b.cost(); });
  return plan;
}

void run_merge(const Attention& op, const Item& item, float* shared) {
  const int64_t rows = item.rows(), width = padded(op.q.dim);
  Arena arena(shared + item.partial);
  States merged(arena, rows, width);
  for (int64_t split = 1; split < item.splits.end; ++split) {
    merge(merged, States(arena, rows, width), rows, width);
  }
  finish(op, item, merged);
}

void attention(const Attention& op, ThreadPool& pool) {
  check_operands(op);
  const Plan plan = make_plan(op);
  const auto bytes = [](int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); };
  float* shared = reinterpret_cast<float*>(pool.shared_scratch(bytes(plan.shared)));
  pool.run(static_cast<int64_t>(plan.items.size()), [&](int64_t i, int worker) {
    float* scratch = reinterpret_cast<float*>(pool.scratch(worker, bytes(plan.scratch)));
    run_item(op, plan.items[static_cast<size_t>(i)], scratch, shared);
  });
  pool.run(static_cast<int64_t>(plan.merges.size()),
           [&](int64_t i, int) { run_merge(op, plan.merges[static_cast<size_t>(i)], shared); });
}

}  // namespace
}  // namespace attn

void fill_attention_forward(KernelSet& set) { set.attention = attn::attention; }

}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rlreplay::kernels::cpu {

void add_attention_forward(KernelSet& set, int64_t target) {
  choose(target, HWY_CHOOSE_AVX3(fill_attention_forward), HWY_CHOOSE_AVX2(fill_attention_forward),
         HWY_CHOOSE_NEON(fill_attention_forward))(set);
}

}  // namespace rlreplay::kernels::cpu
#endif
