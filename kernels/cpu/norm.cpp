#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/norm.cpp"
#include <cmath>

#include <hwy/foreach_target.h>  // compiles this file once per target
#include <hwy/highway.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/items.h"
#include "kernels/cpu/row_sum-inl.h"
#include "kernels/cpu/token_partials.h"
#include "kernels/cpu/token_sum-inl.h"
#include "kernels/cpu/vectors-inl.h"
#include "src/base/thread_pool.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {
namespace {

using F = Simd::F;

float norm_row(const float* x, const float* w, float eps, float* y, int64_t n) {
  const float squares = row(n, [&](auto part, int64_t i, F lane) HWY_ATTR {
    const F v = part.load(x + i);
    return hn::MulAdd(v, v, lane);
  });
  const float r = 1.0f / sqrtf(squares / static_cast<float>(n) + eps);
  const F scale = Simd::set(r);
  each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
    part.store(hn::Mul(hn::Mul(part.load(x + i), scale), part.load(w + i)), y + i);
  });
  return r;
}

void rms_norm(const RmsNorm& op, ThreadPool& pool) {
  const int64_t heads = op.x.heads;
  each_row(pool, op.x.tokens, heads * op.x.dim, [&](int64_t t, int) {
    for (int64_t h = 0; h < heads; ++h) {
      op.r[t * heads + h] = norm_row(op.x.at(t, h), op.w, op.eps, op.y.at(t, h), op.x.dim);
    }
  });
}

/// The contributions g (x r) to dw of one row; `sum` has room for whole vectors.
void contribute_row(const float* x, const float* g, float r, int64_t n, const TokenVector& tokens,
                    int64_t* sum) {
  const F scale = Simd::set(r);
  each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
    tokens.add(hn::Mul(part.load(g + i), hn::Mul(part.load(x + i), scale)), sum + i, i, n - i);
  });
}

void backward_row(const float* x, const float* w, float r, const float* g, const float* residual,
                  float* dx, int64_t n) {
  const float s = row(n, [&](auto part, int64_t i, F lane) HWY_ATTR {
    return hn::MulAdd(hn::Mul(part.load(g + i), part.load(w + i)), part.load(x + i), lane);
  });
  const F pull = Simd::set(((r * r) * r) * (s / static_cast<float>(n)));
  const F scale = Simd::set(r);
  each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
    const F push = hn::Mul(scale, hn::Mul(part.load(g + i), part.load(w + i)));
    F d = hn::NegMulAdd(part.load(x + i), pull, push);
    if (residual != nullptr) d = hn::Add(d, part.load(residual + i));
    part.store(d, dx + i);
  });
}

void backward_token(const RmsNormBackward& op, int64_t t, const TokenVector* tokens, int64_t* sum) {
  const bool counts = tokens != nullptr && (op.counts == nullptr || op.counts[t] != 0);
  for (int64_t h = 0; h < op.x.heads; ++h) {
    const float *x = op.x.at(t, h), *g = op.dy.at(t, h);
    const float r = op.r[t * op.x.heads + h];
    if (counts && h >= op.dw_heads.begin && h < op.dw_heads.end) {
      contribute_row(x, g, r, op.x.dim, *tokens, sum);
    }
    backward_row(x, op.w, r, g, op.residual.data == nullptr ? nullptr : op.residual.at(t, h),
                 op.dx.at(t, h), op.x.dim);
  }
}

void rms_norm_backward(const RmsNormBackward& op, ThreadPool& pool) {
  const bool counted = op.dw.sum.data != nullptr;
  TokenPartials partials(pool, counted ? op.x.dim : 0);
  const auto rounding = token_rounding(op.dw);
  each_item(pool, op.x.tokens, op.x.heads * op.x.dim, [&](Range rows, int worker) HWY_ATTR {
    const TokenVector tokens(rounding, op.dw.rejected);
    for (int64_t t = rows.begin; t < rows.end; ++t) {
      backward_token(op, t, counted ? &tokens : nullptr, partials.of(worker));
    }
  });
  if (counted) partials.add_to(op.dw.sum.row(0));
}

}  // namespace

void fill_norm(KernelSet& set) {
  set.rms_norm = rms_norm;
  set.rms_norm_backward = rms_norm_backward;
}

}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rlreplay::kernels::cpu {

void add_norm(KernelSet& set, int64_t target) {
  choose(target, HWY_CHOOSE_AVX3(fill_norm), HWY_CHOOSE_AVX2(fill_norm),
         HWY_CHOOSE_NEON(fill_norm))(set);
}

}  // namespace rlreplay::kernels::cpu
#endif
