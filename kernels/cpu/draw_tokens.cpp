#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/draw_tokens.cpp"
#include "kernels/draw_tokens.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <hwy/foreach_target.h>  // compiles this file once per target
#include <hwy/highway.h>

#include "kernels/cpu/arithmetic-inl.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/draw_border.h"
#include "src/base/thread_pool.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {
namespace {

using F = Simd::F;
using U64 = hn::Repartition<uint64_t, Simd::D>;
using V64 = hn::Vec<U64>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Simd::D()));
constexpr int64_t kStep = 4 * kLanes;  // ids of one group of counters
constexpr int64_t kChunk = 1 << 14;    // ids of one item where a row is not restricted

/// Above every Gumbel noise: u is at most 1 - 2^-24, -log(-log u) at most 16.64.
constexpr float kMostNoise = 16.75f;

/// Philox with a counter a 64-bit lane: the products need no shuffles there.
struct Counters {
  V64 x[4];
};

HWY_INLINE void philox_round(Counters& c, V64 key0, V64 key1) {
  const hn::Repartition<uint32_t, Simd::D> d32;
  // The high halves of x[1] and x[3] are left dirty: only low halves are multiplied.
  const V64 a = hn::MulEven(hn::Set(d32, kPhiloxMultiply0), hn::BitCast(d32, c.x[0]));
  const V64 b = hn::MulEven(hn::Set(d32, kPhiloxMultiply1), hn::BitCast(d32, c.x[2]));
  c.x[0] = hn::Xor(hn::Xor(hn::ShiftRight<32>(b), c.x[1]), key0);
  c.x[2] = hn::Xor(hn::Xor(hn::ShiftRight<32>(a), c.x[3]), key1);
  c.x[1] = b;
  c.x[3] = a;
}

/// log(-log u) of the bits of a word; log_normal is log there.
HWY_INLINE F negative_noise(hn::Vec<U64> words) {
  const auto top = hn::ShiftRight<9>(hn::BitCast(hn::Repartition<uint32_t, Simd::D>(), words));
  const F n = Simd::to_float(hn::BitCast(Simd::DI(), top));
  const F u = Simd::mul(Simd::add(n, Simd::set(0.5f)), Simd::set(0x1p-23f));
  return log_normal<Simd>(Simd::sub(Simd::set(0.0f), log_normal<Simd>(u)));
}

/// The noise of one row.
class Noise {
 public:
  Noise(const DrawTokens& op, const Draw& draw)
      : seed_(op.seed), name_(noise_counter(draw, op.stream, 0)) {}

  /// out[j] = log(-log u) of ids id + j kLanes and following; id is a multiple of 4.
  HWY_INLINE void compute(int64_t id, F out[4]) const {
    const U64 d;
    // Two states of kLanes / 2 counters. Inside a block of 128 bits the even lane belongs to one
    // output vector and the odd lane to the next one, so that interleaving puts ids in order.
    HWY_ALIGN uint64_t first[kLanes / 2];
    for (int64_t i = 0; i < kLanes / 2; ++i) {
      first[i] = static_cast<uint64_t>(id / 4 + i % 2 * (kLanes / 4) + i / 2);
    }
    Counters low, high;
    low.x[0] = hn::Load(d, first);
    high.x[0] = hn::Add(low.x[0], hn::Set(d, static_cast<uint64_t>(kLanes / 2)));
    for (int w = 1; w < 4; ++w) low.x[w] = high.x[w] = hn::Set(d, uint64_t{name_.word[w]});
    uint32_t key0 = static_cast<uint32_t>(seed_), key1 = static_cast<uint32_t>(seed_ >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const V64 k0 = hn::Set(d, uint64_t{key0}), k1 = hn::Set(d, uint64_t{key1});
      philox_round(low, k0, k1);
      philox_round(high, k0, k1);
      key0 += kPhiloxWeyl0;
      key1 += kPhiloxWeyl1;
    }
    spread(low, out);
    spread(high, out + 2);
  }

 private:
  static HWY_INLINE void spread(const Counters& c, F out[2]) {
    const U64 d;
    const V64 mask = hn::Set(d, uint64_t{0xffffffffu});
    const V64 words01 = hn::Or(hn::And(c.x[0], mask), hn::ShiftLeft<32>(c.x[1]));
    const V64 words23 = hn::Or(hn::And(c.x[2], mask), hn::ShiftLeft<32>(c.x[3]));
    out[0] = negative_noise(hn::InterleaveLower(d, words01, words23));
    out[1] = negative_noise(hn::InterleaveUpper(d, words01, words23));
  }

  uint64_t seed_;
  Words4 name_;
};

/// The ids that stay: value above last.value, or equal to it and id up to last.id.
HWY_INLINE F drop_others(F value, int64_t id, Ranked last) {
  const Simd::DI di;
  const F border = Simd::set(last.value);
  const auto ids = hn::Iota(di, static_cast<int32_t>(id));
  const auto early = hn::RebindMask(Simd::D(), hn::Lt(ids, Simd::seti(last.id + 1)));
  const auto stays = hn::Or(hn::Lt(border, value), hn::And(hn::Eq(border, value), early));
  return hn::IfThenElse(stays, value, Simd::set(-kInfinity));
}

/// The best score among `ids` of a row; id -1 where no score is above -infinity.
template <bool kRestricted>
Ranked best_score(const float* logits, Range ids, const Noise& noise, Ranked last) {
  const Simd::D d;
  HWY_ALIGN float buffer[kStep];
  Ranked best{-kInfinity, -1};
  for (int64_t id = ids.begin; id < ids.end; id += kStep) {
    const float* from = logits + id;
    if (ids.end - id < kStep) {
      std::fill(buffer, buffer + kStep, -kInfinity);
      std::memcpy(buffer, from, static_cast<size_t>(ids.end - id) * sizeof(float));
      from = buffer;
    }
    F value[4];
    F most = Simd::set(-kInfinity);
    for (int64_t j = 0; j < 4; ++j) {
      value[j] = hn::LoadU(d, from + j * kLanes);
      if constexpr (kRestricted) value[j] = drop_others(value[j], id + j * kLanes, last);
      most = Simd::max(value[j], most);
    }
    // Most ids cannot win, whatever their noise is.
    if (hn::AllFalse(d, hn::Lt(Simd::set(best.value), Simd::add(most, Simd::set(kMostNoise))))) {
      continue;
    }
    F other[4];
    noise.compute(id, other);
    for (int64_t j = 0; j < 4; ++j) {
      hn::Store(Simd::sub(value[j], other[j]), d, buffer + j * kLanes);
    }
    for (int64_t i = 0; i < kStep; ++i) {
      if (buffer[i] > best.value) best = {buffer[i], static_cast<int32_t>(id + i)};
    }
  }
  return best;
}

int32_t greedy(const float* logits, int64_t vocab) {
  const Simd::D d;
  Ranked best{-kInfinity, 0};
  int64_t i = 0;
  for (; i + kLanes <= vocab; i += kLanes) {
    if (hn::AllFalse(d, hn::Lt(Simd::set(best.value), hn::LoadU(d, logits + i)))) continue;
    for (int64_t j = i; j < i + kLanes; ++j) {
      if (logits[j] > best.value) best = {logits[j], static_cast<int32_t>(j)};
    }
  }
  for (; i < vocab; ++i) {
    if (logits[i] > best.value) best = {logits[i], static_cast<int32_t>(i)};
  }
  return best.id;
}

void tile_bins(const float* logits, float max, int32_t* out) {
  const Simd::D d;
  for (int64_t i = 0; i < BorderTiles::kTile; i += kLanes) {
    const F gap = Simd::sub(Simd::set(max), hn::LoadU(d, logits + i));
    const F bin = Simd::max(Simd::set(0.0f), Simd::mul(gap, Simd::set(kBinsPerUnit)));
    hn::Store(Simd::to_int(Simd::min(Simd::set(kBins - 1), bin)), Simd::DI(), out + i);
  }
}

void tile_probabilities(const float* logits, float max, float inverse, float* out) {
  const Simd::D d;
  for (int64_t i = 0; i < BorderTiles::kTile; i += kLanes) {
    const F e = exp<Simd>(Simd::sub(hn::LoadU(d, logits + i), Simd::set(max)));
    hn::Store(Simd::mul(e, Simd::set(inverse)), d, out + i);
  }
}

void draw_greedily(const DrawTokens& op, ThreadPool& pool) {
  pool.run(op.logits.rows,
           [&](int64_t t, int) { op.ids[t] = greedy(op.logits.row(t), op.logits.cols); });
}

void draw_of_all(const DrawTokens& op, ThreadPool& pool) {
  const int64_t rows = op.logits.rows, vocab = op.logits.cols;
  const int64_t chunks = ceil_div(vocab, kChunk);
  auto* best = reinterpret_cast<Ranked*>(
      pool.shared_scratch(static_cast<size_t>(rows * chunks) * sizeof(Ranked)));
  pool.run(rows * chunks, [&](int64_t item, int) {
    const int64_t t = item / chunks, begin = item % chunks * kChunk;
    const Noise noise(op, op.draws[static_cast<size_t>(t)]);
    const Range ids{begin, std::min(vocab, begin + kChunk)};
    best[item] = best_score<false>(op.logits.row(t), ids, noise, {});
  });
  for (int64_t t = 0; t < rows; ++t) {
    Ranked row{-kInfinity, 0};
    for (int64_t c = 0; c < chunks; ++c) {
      const Ranked& chunk = best[t * chunks + c];
      if (chunk.value > row.value) row = chunk;
    }
    op.ids[t] = row.id;
  }
}

void draw_of_some(const DrawTokens& op, ThreadPool& pool) {
  const BorderTiles tiles{tile_bins, tile_probabilities};
  const int64_t vocab = op.logits.cols;
  pool.run(op.logits.rows, [&](int64_t t, int worker) {
    BorderSearch search(op, t, tiles, pool.scratch(worker, BorderSearch::scratch_bytes(vocab)));
    const Ranked last = search.find();
    const Noise noise(op, op.draws[static_cast<size_t>(t)]);
    const Ranked best = best_score<true>(op.logits.row(t), {0, vocab}, noise, last);
    op.ids[t] = best.id >= 0 ? best.id : search.lowest(last);
  });
}

void draw_tokens(const DrawTokens& op, ThreadPool& pool) {
  if (op.greedy) return draw_greedily(op, pool);
  const bool all = op.top_k <= 0 || op.top_k >= op.logits.cols;
  return all && op.top_p >= 1 ? draw_of_all(op, pool) : draw_of_some(op, pool);
}

}  // namespace

void fill_draw_tokens(KernelSet& set) { set.draw_tokens = draw_tokens; }

}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rlreplay::kernels::cpu {

void add_draw_tokens(KernelSet& set, int64_t target) {
  choose(target, HWY_CHOOSE_AVX3(fill_draw_tokens), HWY_CHOOSE_AVX2(fill_draw_tokens),
         HWY_CHOOSE_NEON(fill_draw_tokens))(set);
}

}  // namespace rlreplay::kernels::cpu
#endif
