#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer.cpp"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include <hwy/foreach_target.h>  // compiles this file once per target
#include <hwy/highway.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/items.h"
#include "src/base/thread_pool.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using D = hn::ScalableTag<double>;
using DI = hn::Rebind<int64_t, D>;
using DF = hn::Rebind<float, D>;
using V = hn::Vec<D>;
using I = hn::Vec<DI>;

constexpr int64_t kWide = hn::MaxLanes(D());  // elements of 64 bits in a vector

/// Calls body(range) for ranges that are multiples of kWide, but for the last one.
template <class Body>
void each_range(ThreadPool& pool, size_t size, Body&& body) {
  each_item(pool, static_cast<int64_t>(size), 1, body);
}

using DU = hn::Rebind<uint64_t, D>;
using U = hn::Vec<DU>;

/// limbs[k] += limb k of x^2 for a vector of x; every lane grows by less than 2^34.
HWY_INLINE void add_squares(I x, U& limb0, U& limb1, U& limb2, U& limb3) {
  const DU du;
  const hn::Repartition<uint32_t, DU> d32;
  const I sign = hn::BroadcastSignBit(x);
  const U low = hn::BitCast(du, hn::Sub(hn::Xor(x, sign), sign));  // |x|; its low half counts
  const auto l = hn::BitCast(d32, low), h = hn::BitCast(d32, hn::ShiftRight<32>(low));
  const U ll = hn::MulEven(l, l), hh = hn::MulEven(h, h);
  const U lh = hn::ShiftLeft<1>(hn::MulEven(l, h));  // h is below 2^31
  const U mask = hn::Set(du, 0xffffffffu);
  limb0 = hn::Add(limb0, hn::And(ll, mask));
  limb1 = hn::Add(limb1, hn::Add(hn::ShiftRight<32>(ll), hn::And(lh, mask)));
  limb2 = hn::Add(limb2, hn::Add(hn::ShiftRight<32>(lh), hn::And(hh, mask)));
  limb3 = hn::Add(limb3, hn::ShiftRight<32>(hh));
}

int64_t sum_of_lanes(U x) {
  HWY_ALIGN uint64_t lanes[kWide];
  hn::Store(x, DU(), lanes);
  int64_t out = 0;
  for (const uint64_t lane : lanes) out += static_cast<int64_t>(lane);
  return out;
}

/// The limbs of the sum of squares of one item, carries not propagated.
SquareSum item_squares(const int64_t* x, int64_t n) {
  U limb0 = hn::Zero(DU()), limb1 = limb0, limb2 = limb0, limb3 = limb0;
  int64_t i = 0;
  for (; i + kWide <= n; i += kWide) {
    add_squares(hn::LoadU(DI(), x + i), limb0, limb1, limb2, limb3);
  }
  if (i < n) {
    HWY_ALIGN int64_t rest[kWide] = {};
    std::memcpy(rest, x + i, static_cast<size_t>(n - i) * sizeof(int64_t));
    add_squares(hn::Load(DI(), rest), limb0, limb1, limb2, limb3);
  }
  return {sum_of_lanes(limb0), sum_of_lanes(limb1), sum_of_lanes(limb2), sum_of_lanes(limb3), 0};
}

void propagate_carries(SquareSum& sum) {
  for (size_t k = 0; k + 1 < sum.size(); ++k) {
    sum[k + 1] += sum[k] >> 32;
    sum[k] &= 0xffffffff;
  }
}

/// An exact sum: which worker takes an item changes nothing. Within an item a lane grows by less
/// than 2^34 for each of at most 2^14 vectors; carried, an item adds less than 2^32 to a worker's
/// limb: no limb reaches 2^63 before it is carried.
void sum_squares(const SumSquares& op, ThreadPool& pool) {
  struct alignas(64) Partial {
    SquareSum sum;
  };
  const auto workers = static_cast<size_t>(pool.threads());
  auto* partials = reinterpret_cast<Partial*>(pool.shared_scratch(workers * sizeof(Partial)));
  std::fill_n(partials, workers, Partial{});
  each_range(pool, op.grad.size(), [&](Range range, int worker) {
    SquareSum item = item_squares(op.grad.data() + range.begin, range.size());
    propagate_carries(item);
    for (size_t k = 0; k < item.size(); ++k) partials[worker].sum[k] += item[k];
  });
  SquareSum total = {};
  for (size_t worker = 0; worker < workers; ++worker) {
    for (size_t k = 0; k < total.size(); ++k) total[k] += partials[worker].sum[k];
  }
  propagate_carries(total);
  for (size_t k = 0; k < total.size(); ++k) (*op.out)[k] += total[k];
}

/// fl(x) for a vector of int64. Binary64 holds |x| < 2^53; above, the low 11 bits only say on which
/// side of a tie x lies, so they are folded into one that binary64 keeps.
HWY_INLINE hn::Vec<DF> to_float(I x) {
  const DI di;
  const I low = hn::Set(di, 0x7ff);
  const I odd = hn::Set(di, 0x800);
  const I rest = hn::And(x, low);
  const auto inexact = hn::Ne(rest, hn::Zero(di));
  const I folded = hn::Or(hn::Sub(x, rest), hn::IfThenElseZero(inexact, odd));
  const I sign = hn::BroadcastSignBit(x);
  const auto large = hn::Ne(hn::ShiftRight<53>(hn::Xor(x, sign)), hn::Zero(di));
  return hn::DemoteTo(DF(), hn::ConvertTo(D(), hn::IfThenElse(large, folded, x)));
}

void token_gradient(const TokenGradient& op, ThreadPool& pool) {
  const float unit = std::ldexp(1.0f, -op.scale);
  each_range(pool, op.sum.size(), [&](Range range, int) HWY_ATTR {
    int64_t i = range.begin;
    const int64_t* sum = op.sum.data();
    float* grad = op.grad.data();
    for (; i + kWide <= range.end; i += kWide) {
      const auto x = to_float(hn::LoadU(DI(), sum + i));
      hn::StoreU(hn::Mul(x, hn::Set(DF(), unit)), DF(), grad + i);
    }
    for (; i < range.end; ++i) grad[i] = static_cast<float>(sum[i]) * unit;
  });
}

/// The update in binary64 from the exact sums of a gradient: m, v and w are rounded to binary32 as
/// they are stored, never before. A multiply-add is one rounding where it is one of the reference.
class AdamWVector {
 public:
  explicit AdamWVector(const AdamW& op)
      : unit_(std::ldexp(1.0, -op.scale)), clip_(static_cast<double>(op.clip)), s_(op.step) {}

  /// Updates whole vectors.
  HWY_INLINE void update(const int64_t* sum, float* m, float* v, float* w) const {
    const D d;
    const V g = hn::Mul(hn::Mul(hn::ConvertTo(d, hn::LoadU(DI(), sum)), hn::Set(d, unit_)),
                        hn::Set(d, clip_));
    const V m1 =
        hn::MulAdd(hn::Set(d, s_.beta1), load(m), hn::Mul(hn::Set(d, s_.one_minus_beta1), g));
    const V v1 = hn::MulAdd(hn::Set(d, s_.beta2), load(v),
                            hn::Mul(hn::Mul(hn::Set(d, s_.one_minus_beta2), g), g));
    const V root = hn::MulAdd(hn::Sqrt(v1), hn::Set(d, s_.inverse_root), hn::Set(d, s_.eps));
    const V w0 = load(w);
    const V decayed = hn::MulAdd(hn::Set(d, -s_.decay), w0, w0);
    store(hn::MulAdd(hn::Set(d, -s_.step_size), hn::Div(m1, root), decayed), w);
    store(m1, m);
    store(v1, v);
  }

 private:
  static HWY_INLINE V load(const float* p) { return hn::PromoteTo(D(), hn::LoadU(DF(), p)); }
  static HWY_INLINE void store(V x, float* p) { hn::StoreU(hn::DemoteTo(DF(), x), DF(), p); }

  double unit_;
  double clip_;
  AdamWStep s_;
};

/// The last elements, through buffers of whole vectors.
void update_rest(const AdamWVector& adamw, const int64_t* sum, float* m, float* v, float* w,
                 int64_t n) {
  HWY_ALIGN int64_t sums[kWide] = {};
  HWY_ALIGN float ms[kWide] = {}, vs[kWide] = {}, ws[kWide] = {};
  const auto bytes = static_cast<size_t>(n) * sizeof(float);
  std::memcpy(sums, sum, 2 * bytes);
  std::memcpy(ms, m, bytes);
  std::memcpy(vs, v, bytes);
  std::memcpy(ws, w, bytes);
  adamw.update(sums, ms, vs, ws);
  std::memcpy(m, ms, bytes);
  std::memcpy(v, vs, bytes);
  std::memcpy(w, ws, bytes);
}

void adamw(const AdamW& op, ThreadPool& pool) {
  const AdamWVector vector(op);
  each_range(pool, op.sum.size(), [&](Range range, int) HWY_ATTR {
    const int64_t* sum = op.sum.data();
    float *m = op.m.data(), *v = op.v.data(), *w = op.w.data();
    int64_t i = range.begin;
    for (; i + kWide <= range.end; i += kWide) vector.update(sum + i, m + i, v + i, w + i);
    if (i < range.end) update_rest(vector, sum + i, m + i, v + i, w + i, range.end - i);
  });
}

}  // namespace

void fill_optimizer(KernelSet& set) {
  set.sum_squares = sum_squares;
  set.token_gradient = token_gradient;
  set.adamw = adamw;
}

}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rlreplay::kernels::cpu {

void add_optimizer(KernelSet& set, int64_t target) {
  choose(target, HWY_CHOOSE_AVX3(fill_optimizer), HWY_CHOOSE_AVX2(fill_optimizer),
         HWY_CHOOSE_NEON(fill_optimizer))(set);
}

}  // namespace rlreplay::kernels::cpu
#endif
