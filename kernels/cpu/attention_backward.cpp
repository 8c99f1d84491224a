#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_backward.cpp"
#include <algorithm>
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

/// A rectangle of (query, key) pairs of one kv head that one worker visits: query heads outermost,
/// then key blocks, then query blocks, all ascending. Positions; both begin at a block or at the
/// sample's first query.
struct Item {
  const AttentionBackwardSample* sample;
  int64_t kv_head;
  Range heads;
  Range queries;
  Range keys;
  bool want_dq;
  bool want_dkv;

  int64_t cost() const {
    const double seen = static_cast<double>(queries.end + std::max(queries.begin, keys.begin)) / 2;
    const double columns =
        std::min(seen, static_cast<double>(keys.end)) - static_cast<double>(keys.begin);
    const double rows = static_cast<double>(queries.end - std::max(queries.begin, keys.begin));
    const int products = 2 + (want_dq ? 1 : 0) + (want_dkv ? 2 : 0);
    return static_cast<int64_t>(std::max(0.0, rows * columns)) * heads.size() * products;
  }
};

/// A worker's memory for one item: rows of `width` elements, one head of queries at a time.
struct Workspace {
  float *q, *dout, *dq;             // [queries, width]
  float *dk, *dv;                   // [keys, width]
  float *keys, *values, *key_rows;  // one block: transposed, transposed, [64, width]
  float *p, *ds;                    // [64 queries, 64 keys]

  static int64_t floats(const Item& item, int64_t size) {
    const int64_t width = padded(size);
    return 3 * Arena::size(item.queries.size() * width) +
           2 * Arena::size(padded_keys(item) * width) + 2 * Arena::size(size * kKeyBlock) +
           Arena::size(kKeyBlock * width) + 2 * Arena::size(kQueryBlock * kKeyBlock);
  }
  Workspace(Arena arena, const Item& item, int64_t size) {
    const int64_t width = padded(size);
    for (float** x : {&q, &dout, &dq}) *x = arena.take(item.queries.size() * width);
    for (float** x : {&dk, &dv}) *x = arena.take(padded_keys(item) * width);
    for (float** x : {&keys, &values}) *x = arena.take(size * kKeyBlock);
    key_rows = arena.take(kKeyBlock * width);
    for (float** x : {&p, &ds}) *x = arena.take(kQueryBlock * kKeyBlock);
  }

 private:
  static int64_t padded_keys(const Item& item) {
    return item.want_dkv ? ceil_div(item.keys.size(), kKeyBlock) * kKeyBlock : 0;
  }
};

/// One query block of one head against one block of keys.
struct Pair {
  const float *q, *dout;     // [rows, width]
  const float *lse, *delta;  // `heads` apart
  int64_t heads;
  float *dq, *dk, *dv;  // not asked for: null
  int64_t position;     // of the first query
  int64_t first;        // of the block of keys
  int64_t rows;

  /// How many keys of the block row r sees.
  int64_t count(int64_t r) const { return std::min(kKeyBlock, position + r + 1 - first); }
};

constexpr float kOnes[kTileRows] = {1, 1, 1, 1, 1, 1};

/// to[i] += x[i]; n is a multiple of kLanes.
HWY_INLINE void add_rows(const float* x, int64_t n, float* to) {
  const D d;
  for (int64_t i = 0; i < n; i += kLanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::LoadU(d, x + i)), d, to + i);
  }
}

/// Scores and dP of one row to p and dS; keys that it does not see get +0, to the end of the block.
HWY_INLINE void row_gradients(float* p, float* ds, int64_t count, float lse, float delta) {
  const D d;
  const V minus_lse = hn::Set(d, lse), minus_delta = hn::Set(d, delta);
  int64_t at = 0;
  const auto step = [&](auto keep) {
    const V x = keep(exp<Simd>(hn::Sub(hn::LoadU(d, p + at), minus_lse)));
    hn::StoreU(x, d, p + at);
    const V y = hn::Mul(x, hn::Sub(hn::LoadU(d, ds + at), minus_delta));
    hn::StoreU(keep(y), d, ds + at);
  };
  for (; at + kLanes <= count; at += kLanes) step([](V x) { return x; });
  if (at < count) {
    const auto seen = hn::FirstN(d, static_cast<size_t>(count - at));
    step([&](V x) { return hn::IfThenElseZero(seen, x); });
    at += kLanes;
  }
  for (; at < kKeyBlock; at += kLanes) {
    hn::StoreU(hn::Zero(d), d, p + at);
    hn::StoreU(hn::Zero(d), d, ds + at);
  }
}

/// The part of dq of a tile of rows in one block. A row runs over the keys that it sees and no
/// others: a 0 of its own times an infinity of theirs would be no number.
void tile_dq(const Pair& pair, const Workspace& work, int64_t row, int64_t rows, int64_t width) {
  const int64_t common = pair.count(row), most = pair.count(row + rows - 1);
  float* dq = pair.dq + row * width;
  Product sum{.a = work.ds + row * kKeyBlock,
              .a_row = kKeyBlock,
              .a_step = 1,
              .b = work.key_rows,
              .b_step = width,
              .c = dq,
              .c_row = width,
              .steps = common,
              .into = Into::kFolded};
  if (common == most) return product(sum, rows, width / kLanes);
  HWY_ALIGN float chain[kTileRows * kMaxHeadSize];
  sum.c = chain;
  sum.into = Into::kScaled;
  product(sum, rows, width / kLanes);
  sum.into = Into::kContinued;
  sum.factors = kOnes;
  for (int64_t r = 1; r < rows; ++r) {
    sum.a = work.ds + (row + r) * kKeyBlock + common;
    sum.b = work.key_rows + common * width;
    sum.c = chain + r * width;
    sum.steps = pair.count(row + r) - common;
    if (sum.steps > 0) product(sum, 1, width / kLanes);
  }
  add_rows(chain, rows * width, dq);
}

/// The part of dk or dv of keys [key, key + n) of a block, from p or dS and rows of q or dout. A
/// key runs over the queries that see it and no others, as in tile_dq; those that see some keys of
/// the tile come first.
void tile_dkv(const Pair& pair, const float* p, const float* rows, int64_t key, int64_t n,
              int64_t width, float* out) {
  const auto first_query = [&](int64_t k) {
    return std::clamp<int64_t>(pair.first + k - pair.position, 0, pair.rows);
  };
  const int64_t skip = first_query(key), common = first_query(key + n - 1);
  Product sum{.a = p + common * kKeyBlock + key,
              .a_row = 1,
              .a_step = kKeyBlock,
              .b = rows + common * width,
              .b_step = width,
              .c = out + key * width,
              .c_row = width,
              .steps = pair.rows - common,
              .into = Into::kFolded};
  if (skip == common) return product(sum, n, width / kLanes);
  HWY_ALIGN float chain[kTileRows * kMaxHeadSize];
  std::fill_n(chain, n * width, 0.0f);
  for (int64_t k = key; k + 1 < key + n; ++k) {
    const int64_t begin = first_query(k);
    if (begin == common) break;
    product({.a = p + begin * kKeyBlock + k,
             .a_row = 1,
             .a_step = kKeyBlock,
             .b = rows + begin * width,
             .b_step = width,
             .c = chain + (k - key) * width,
             .c_row = width,
             .steps = common - begin,
             .into = Into::kScaled},
            1, width / kLanes);
  }
  sum.c = chain;
  sum.into = Into::kContinued;
  sum.factors = kOnes;
  product(sum, n, width / kLanes);
  add_rows(chain, n * width, out + key * width);
}

/// p and dS of a tile of rows, and its part of dq.
void tile_gradients(const Pair& pair, const Workspace& work, int64_t row, int64_t rows,
                    int64_t size, float scale) {
  const int64_t width = padded(size), most = pair.count(row + rows - 1);
  float* p = work.p + row * kKeyBlock;
  float* ds = work.ds + row * kKeyBlock;
  Product scores{.a = pair.q + row * width,
                 .a_row = width,
                 .a_step = 1,
                 .b = work.keys,
                 .b_step = kKeyBlock,
                 .c = p,
                 .c_row = kKeyBlock,
                 .steps = size,
                 .into = Into::kScaled,
                 .scale = scale};
  product(scores, rows, ceil_div(most, kLanes));
  scores.a = pair.dout + row * width;
  scores.b = work.values;
  scores.c = ds;
  scores.scale = 1;
  product(scores, rows, ceil_div(most, kLanes));
  for (int64_t r = 0; r < rows; ++r) {
    row_gradients(p + r * kKeyBlock, ds + r * kKeyBlock, pair.count(row + r),
                  pair.lse[(row + r) * pair.heads], pair.delta[(row + r) * pair.heads]);
  }
  if (pair.dq != nullptr) tile_dq(pair, work, row, rows, width);
}

void visit_pair(const Pair& pair, const Workspace& work, int64_t size, float scale) {
  const int64_t width = padded(size);
  for (int64_t row = 0, n; row < pair.rows; row += n) {
    n = tile_rows(pair.rows - row);
    tile_gradients(pair, work, row, n, size, scale);
  }
  if (pair.dk == nullptr) return;
  const int64_t keys = pair.count(pair.rows - 1);
  for (int64_t key = 0, n; key < keys; key += n) {
    n = tile_rows(keys - key);
    tile_dkv(pair, work.p, pair.dout, key, n, width, pair.dv);
    tile_dkv(pair, work.ds, pair.q, key, n, width, pair.dk);
  }
}

/// Writes rows of a gradient: x [rows, width] times `factor`.
void write_rows(const float* x, int64_t rows, float factor, Heads<float> out, int64_t first,
                int64_t head) {
  const D d;
  HWY_ALIGN float y[kMaxHeadSize];
  const int64_t width = padded(out.dim);
  for (int64_t r = 0; r < rows; ++r, x += width) {
    for (int64_t c = 0; c < width; c += kLanes) {
      hn::Store(hn::Mul(hn::LoadU(d, x + c), hn::Set(d, factor)), d, y + c);
    }
    std::memcpy(out.at(first + r, head), y, static_cast<size_t>(out.dim) * sizeof(float));
  }
}

/// One head against one block of keys.
void visit_block(const AttentionBackward& op, const Item& item, const Workspace& work, int64_t head,
                 int64_t first) {
  const auto& sample = *item.sample;
  const int64_t size = op.q.dim, width = padded(size);
  const Range block = {first, std::min({first + kKeyBlock, item.keys.end, item.queries.end})};
  const bool owned = item.want_dkv && block.end > sample.keys.begin && first < sample.keys.end;
  const int64_t begin = std::max(item.queries.begin, first);
  if (block.size() <= 0 || begin >= item.queries.end || !(owned || item.want_dq)) return;

  pack_transposed(sample.k, first, block.size(), item.kv_head, work.keys);
  pack_transposed(sample.v, first, block.size(), item.kv_head, work.values);
  if (item.want_dq) pack_rows(sample.k, first, block.size(), item.kv_head, work.key_rows);
  const float scale = attention_scale(size);
  const int64_t key_row = (first - item.keys.begin) * width;
  for (int64_t at = begin, next; at < item.queries.end; at = next) {
    next = std::min(item.queries.end, (at / kQueryBlock + 1) * kQueryBlock);
    const int64_t row = (at - item.queries.begin) * width;
    const int64_t scalar = (sample.queries.begin + at - sample.position) * op.q.heads + head;
    visit_pair({.q = work.q + row,
                .dout = work.dout + row,
                .lse = op.lse + scalar,
                .delta = op.delta + scalar,
                .heads = op.q.heads,
                .dq = item.want_dq ? work.dq + row : nullptr,
                .dk = owned ? work.dk + key_row : nullptr,
                .dv = owned ? work.dv + key_row : nullptr,
                .position = at,
                .first = first,
                .rows = next - at},
               work, size, scale);
  }
}

void run_item(const AttentionBackward& op, const Item& item, float* scratch) {
  const auto& sample = *item.sample;
  const int64_t size = op.q.dim, width = padded(size), queries = item.queries.size();
  const float scale = attention_scale(size);
  const Workspace work(Arena(scratch), item, size);
  if (item.want_dkv) {
    const int64_t floats = ceil_div(item.keys.size(), kKeyBlock) * kKeyBlock * width;
    std::fill(work.dk, work.dk + floats, 0.0f);
    std::fill(work.dv, work.dv + floats, 0.0f);
  }
  const int64_t row = sample.queries.begin + item.queries.begin - sample.position;
  for (int64_t head = item.heads.begin; head < item.heads.end; ++head) {
    pack_rows(op.q, row, queries, head, work.q);
    pack_rows(op.dout, row, queries, head, work.dout);
    if (item.want_dq) std::fill(work.dq, work.dq + queries * width, 0.0f);
    for (int64_t first = item.keys.begin; first < item.keys.end; first += kKeyBlock) {
      visit_block(op, item, work, head, first);
    }
    if (item.want_dq) write_rows(work.dq, queries, scale, op.dq, row, head);
  }
  if (!item.want_dkv) return;
  const Range keys = {std::max(item.keys.begin, sample.keys.begin),
                      std::min(item.keys.end, sample.keys.end)};
  const int64_t from = (keys.begin - item.keys.begin) * width;
  const int64_t to = sample.dk_row + keys.begin - sample.keys.begin;
  write_rows(work.dk + from, keys.size(), scale, op.dk, to, item.kv_head);
  write_rows(work.dv + from, keys.size(), 1, op.dv, to, item.kv_head);
}

/// One visit per (sample, kv head) that gives all three gradients: five products.
void add_whole(const AttentionBackward& op, const AttentionBackwardSample& sample, int64_t g,
               std::vector<Item>& items) {
  const Range heads = op.groups.query_heads(g, op.q.heads);
  const Range queries = {sample.position, sample.position + sample.queries.size()};
  const Range keys = {0, std::max(sample.keys.end, queries.end)};
  items.push_back({&sample, g, heads, queries, keys, true, true});
}

/// A visit per key block for dk and dv, and one per some query blocks and head for dq: seven
/// products, the same bits.
void add_parts(const AttentionBackward& op, const AttentionBackwardSample& sample, int64_t g,
               std::vector<Item>& items) {
  const Range heads = op.groups.query_heads(g, op.q.heads);
  const int64_t end = sample.position + sample.queries.size();
  for (int64_t at = sample.keys.begin / kKeyBlock * kKeyBlock; at < sample.keys.end;
       at += kKeyBlock) {
    const int64_t begin = std::min(end, std::max(sample.position, at));
    items.push_back({&sample, g, heads, {begin, end}, {at, at + kKeyBlock}, false, true});
  }
  if (op.dq.data == nullptr) return;
  constexpr int64_t kStep = 2 * kQueryBlock;
  for (int64_t at = sample.position, next; at < end; at = next) {
    next = std::min(end, (at / kStep + 1) * kStep);
    for (int64_t h = heads.begin; h < heads.end; ++h) {
      items.push_back({&sample, g, {h, h + 1}, {at, next}, {0, next}, true, false});
    }
  }
}

/// What the workers need together and, at the end, one of them: the longest items first.
int64_t finish_time(std::vector<Item>& items, int threads) {
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.cost() > b.cost(); });
  std::vector<int64_t> busy(static_cast<size_t>(threads), 0);
  for (const auto& item : items) *std::min_element(busy.begin(), busy.end()) += item.cost();
  return *std::max_element(busy.begin(), busy.end());
}

/// Both plans give the same bits, so the number of threads may choose.
std::vector<Item> make_items(const AttentionBackward& op, int threads) {
  std::vector<Item> whole, parts;
  for (const auto& sample : op.samples) {
    const bool both = op.dq.data != nullptr && sample.keys.size() > 0;
    for (int64_t g = 0; g < op.groups.kv_heads(op.q.heads); ++g) {
      add_parts(op, sample, g, parts);
      if (both) {
        add_whole(op, sample, g, whole);
      } else {
        add_parts(op, sample, g, whole);
      }
    }
  }
  return finish_time(whole, threads) <= finish_time(parts, threads) ? whole : parts;
}

void attention_backward(const AttentionBackward& op, ThreadPool& pool) {
  check_operands(op);
  const auto items = make_items(op, pool.threads());
  int64_t floats = 0;
  for (const auto& item : items) {
    floats = std::max(floats, Workspace::floats(item, op.q.dim));
  }
  const auto bytes = static_cast<size_t>(floats) * sizeof(float);
  pool.run(static_cast<int64_t>(items.size()), [&](int64_t i, int worker) {
    float* scratch = reinterpret_cast<float*>(pool.scratch(worker, bytes));
    run_item(op, items[static_cast<size_t>(i)], scratch);
  });
}

}  // namespace
}  // namespace attn

void fill_attention_backward(KernelSet& set) { set.attention_backward = attn::attention_backward; }

}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rlreplay::kernels::cpu {

void add_attention_backward(KernelSet& set, int64_t target) {
  choose(target, HWY_CHOOSE_AVX3(fill_attention_backward), HWY_CHOOSE_AVX2(fill_attention_backward),
         HWY_CHOOSE_NEON(fill_attention_backward))(set);
}

}  // namespace rlreplay::kernels::cpu
#endif
