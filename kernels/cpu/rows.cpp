#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows.cpp"

#include <hwy/foreach_target.h>  // compiles this file once per target
#include <hwy/highway.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/items.h"
#include "kernels/cpu/vectors-inl.h"
#include "src/base/thread_pool.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {
namespace {

using F = Simd::F;

void rotate(const Rotary& op, const float* cos, const float* sin, const float* x, float* y) {
  const int64_t half = op.x.dim / 2;
  each_vector(half, [&](auto part, int64_t i) HWY_ATTR {
    const F a = part.load(x + i), b = part.load(x + half + i);
    const F c = part.load(cos + i);
    const F s = op.inverse ? hn::Neg(part.load(sin + i)) : part.load(sin + i);
    part.store(hn::MulAdd(a, c, hn::Neg(hn::Mul(b, s))), y + i);
    part.store(hn::MulAdd(b, c, hn::Mul(a, s)), y + half + i);
  });
}

void rotary(const Rotary& op, ThreadPool& pool) {
  each_row(pool, op.x.tokens, op.x.heads * op.x.dim, [&](int64_t t, int) {
    const int32_t position = op.positions[t];
    for (int64_t h = 0; h < op.x.heads; ++h) {
      rotate(op, op.cos.row(position), op.sin.row(position), op.x.at(t, h), op.y.at(t, h));
    }
  });
}

void swiglu_row(const float* gate, const float* up, float* out, int64_t n) {
  each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
    part.store(hn::Mul(silu<Simd>(part.load(gate + i)), part.load(up + i)), out + i);
  });
}

void swiglu(const SwiGlu& op, ThreadPool& pool) {
  each_row(pool, op.out.rows, op.out.cols, [&](int64_t t, int) {
    swiglu_row(op.gate.row(t), op.up.row(t), op.out.row(t), op.out.cols);
  });
}

void swiglu_backward_row(const SwiGluBackward& op, int64_t t) {
  const float *gate = op.gate.row(t), *up = op.up.row(t), *dout = op.dout.row(t);
  float *dgate = op.dgate.row(t), *dup = op.dup.row(t);
  const F one = Simd::set(1.0f);
  each_vector(op.dout.cols, [&](auto part, int64_t i) HWY_ATTR {
    const F g = part.load(gate + i), u = part.load(up + i), d = part.load(dout + i);
    const F sig = sigmoid<Simd>(g);
    part.store(hn::Mul(d, hn::Mul(g, sig)), dup + i);
    const F slope = hn::Mul(sig, hn::MulAdd(g, hn::Sub(one, sig), one));
    part.store(hn::Mul(hn::Mul(d, u), slope), dgate + i);
  });
}

void swiglu_backward(const SwiGluBackward& op, ThreadPool& pool) {
  each_row(pool, op.dout.rows, op.dout.cols, [&](int64_t t, int) { swiglu_backward_row(op, t); });
}

}  // namespace

void fill_rows(KernelSet& set) {
  set.rotary = rotary;
  set.swiglu = swiglu;
  set.swiglu_backward = swiglu_backward;
}

}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rlreplay::kernels::cpu {

void add_rows(KernelSet& set, int64_t target) {
  choose(target, HWY_CHOOSE_AVX3(fill_rows), HWY_CHOOSE_AVX2(fill_rows),
         HWY_CHOOSE_NEON(fill_rows))(set);
}

}  // namespace rlreplay::kernels::cpu
#endif
