#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vocab.cpp"
#include <algorithm>
#include <cmath>

#include <hwy/foreach_target.h>  // compiles this file once per target
#include <hwy/highway.h>

#include "kernels/contract.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/items.h"
#include "kernels/cpu/row_sum-inl.h"
#include "kernels/cpu/vectors-inl.h"
#include "kernels/reference/row_sum.h"
#include "src/base/thread_pool.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {
namespace {

using F = Simd::F;

/// Divides in place and returns the maximum; a temperature of 1 leaves the bits as they are.
float divide_and_max(float* l, int64_t n, float temperature) {
  const F divisor = Simd::set(temperature);
  const F lowest = Simd::set(-INFINITY);
  F m0 = lowest, m1 = lowest;
  int64_t i = 0;
  if (temperature == 1.0f) {
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      m0 = hn::Max(m0, Whole().load(l + i));
      m1 = hn::Max(m1, Whole().load(l + i + kLanes));
    }
  }
  each_vector(n - i, [&](auto part, int64_t j) HWY_ATTR {
    F v = part.load(l + i + j);
    if (temperature != 1.0f) {
      v = hn::Div(v, divisor);
      part.store(v, l + i + j);
    }
    m0 = hn::Max(m0, part.keep(v, lowest));
  });
  return hn::GetLane(hn::MaxOfLanes(Simd::D(), hn::Max(m0, m1)));
}

void vocab_max(const VocabMax& op, ThreadPool& pool) {
  const int64_t tiles = tile_columns(op.logits.cols);
  float* maxima = reinterpret_cast<float*>(
      pool.shared_scratch(static_cast<size_t>(op.logits.rows * tiles) * sizeof(float)));
  each_tile(pool, op.logits.rows, op.logits.cols, [&](Range rows, Range cols, int) {
    for (int64_t t = rows.begin; t < rows.end; ++t) {
      maxima[t * tiles + cols.begin / kItemElements] =
          divide_and_max(op.logits.row(t) + cols.begin, cols.size(), op.temperature);
    }
  });
  for (int64_t t = 0; t < op.logits.rows; ++t) {
    // Adding +0 turns -0 into +0.
    op.max[t] = *std::max_element(maxima + t * tiles, maxima + (t + 1) * tiles) + 0.0f;
  }
}

TwoSums segment_sums(const float* l, int64_t n, float max) {
  const F m = Simd::set(max);
  return two_rows(n, [&](auto part, int64_t i, F& z, F& e) HWY_ATTR {
    const F x = hn::Sub(part.load(l + i), m);
    const F p = exp<Simd>(x);
    z = hn::Add(z, p);
    e = hn::MulAdd(p, x, e);
  });
}

void vocab_sums(const VocabSums& op, ThreadPool& pool) {
  const auto segments = static_cast<int64_t>(op.segments.size());
  if (segments == 0) return;
  const int64_t step = item_rows(op.logits.cols / segments);
  pool.run(ceil_div(op.logits.rows, step) * segments, [&](int64_t item, int) {
    const int64_t first = item / segments * step, s = item % segments;
    const Range columns = op.segments[static_cast<size_t>(s)];
    for (int64_t t = first; t < std::min(op.logits.rows, first + step); ++t) {
      const auto sums = segment_sums(op.logits.row(t) + columns.begin, columns.size(), op.max[t]);
      op.z(t, s) = sums.a;
      op.e(t, s) = sums.b;
    }
  });
}

void log_prob(const LogProb& op, ThreadPool& pool) {
  using contract::Scalar;
  constexpr int64_t kWork = 128;  // an item has about this many rows
  each_row(pool, op.z.rows, kItemElements / kWork, [&](int64_t t, int) {
    const float z = reference::tree(op.z.row(t), op.z.cols);
    const float e = reference::tree(op.e.row(t), op.e.cols);
    const float log_z = contract::log<Scalar>(z);
    op.sum[t] = z;
    op.log_sum[t] = log_z;
    op.log_prob[t] = (op.label_logit[t] - op.max[t]) - log_z;
    op.entropy[t] = log_z - e / z;
  });
}

/// One gradient, on a vector or on one number.
template <class A>
struct LogitGradient {
  typename A::F max, inverse, log_sum, entropy, c, ce, temperature;
  bool divides;

  HWY_INLINE LogitGradient(const LogProbBackward& op, int64_t t)
      : max(A::set(op.max[t])),
        inverse(A::set(1.0f / op.sum[t])),
        log_sum(A::set(op.log_sum[t])),
        entropy(A::set(op.entropy[t])),
        c(A::set(op.c[t])),
        ce(A::set(op.ce[t])),
        temperature(A::set(op.temperature)),
        divides(op.temperature != 1.0f) {}

  HWY_INLINE typename A::F operator()(typename A::F l, typename A::F taken) const {
    const auto x = A::sub(l, max);
    const auto p = A::mul(kernels_exp(A(), x), inverse);
    const auto d =
        A::fma(A::mul(ce, p), A::add(A::sub(x, log_sum), entropy), A::mul(A::sub(p, taken), c));
    return divides ? A::div(d, temperature) : d;
  }

 private:
  static HWY_INLINE F kernels_exp(Simd, F x) { return exp<Simd>(x); }
  static HWY_INLINE float kernels_exp(contract::Scalar, float x) {
    return contract::exp<contract::Scalar>(x);
  }
};

void backward_part(const LogProbBackward& op, int64_t t, Range cols) {
  const float* l = op.logits.row(t) + cols.begin;
  float* d = op.dlogits.row(t) + cols.begin;
  if (op.c[t] == 0.0f && op.ce[t] == 0.0f) {
    std::fill(d, d + cols.size(), 0.0f);
    return;
  }
  const int64_t label = op.labels[t] - cols.begin;
  const bool here = label >= 0 && label < cols.size();
  const float label_logit = here ? l[label] : 0.0f;  // l and d may be the same memory
  const LogitGradient<Simd> gradient(op, t);
  const F zero = Simd::set(0.0f);
  each_vector(cols.size(), [&](auto part, int64_t i)
                               HWY_ATTR { part.store(gradient(part.load(l + i), zero), d + i); });
  if (here) d[label] = LogitGradient<contract::Scalar>(op, t)(label_logit, 1.0f);
}

void log_prob_backward(const LogProbBackward& op, ThreadPool& pool) {
  each_tile(pool, op.logits.rows, op.logits.cols, [&](Range rows, Range cols, int) {
    for (int64_t t = rows.begin; t < rows.end; ++t) backward_part(op, t, cols);
  });
}

}  // namespace

void fill_vocab(KernelSet& set) {
  set.vocab_max = vocab_max;
  set.vocab_sums = vocab_sums;
  set.log_prob = log_prob;
  set.log_prob_backward = log_prob_backward;
}

}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rlreplay::kernels::cpu {

void add_vocab(KernelSet& set, int64_t target) {
  choose(target, HWY_CHOOSE_AVX3(fill_vocab), HWY_CHOOSE_AVX2(fill_vocab),
         HWY_CHOOSE_NEON(fill_vocab))(set);
}

}  // namespace rlreplay::kernels::cpu
#endif
