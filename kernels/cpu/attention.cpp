#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cpp"
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

constexpr int64_t kGroup = kRowLanes / kLanes;  // vectors that hold the lanes of `row`

/// row(a b). Lanes after the end add zeros: at most the sign of a zero changes, and the fold from
/// +0 loses it.
float row_product(const float* a, const float* b, int64_t n) {
  const D d;
  std::array<V, kGroup> lanes;
  for (auto& lane : lanes) lane = hn::Zero(d);
  int64_t i = 0;
  for (; i + kRowLanes <= n; i += kRowLanes) {
    for (int64_t v = 0; v < kGroup; ++v) {
      auto& lane = lanes[static_cast<size_t>(v)];
      lane = hn::MulAdd(hn::LoadU(d, a + i + v * kLanes), hn::LoadU(d, b + i + v * kLanes), lane);
    }
  }
  if (i < n) {
    HWY_ALIGN float rest_a[kRowLanes], rest_b[kRowLanes];
    std::fill(std::copy(a + i, a + n, rest_a), rest_a + kRowLanes, 0.0f);
    std::fill(std::copy(b + i, b + n, rest_b), rest_b + kRowLanes, 0.0f);
    for (int64_t v = 0; v < kGroup; ++v) {
      auto& lane = lanes[static_cast<size_t>(v)];
      lane = hn::MulAdd(hn::Load(d, rest_a + v * kLanes), hn::Load(d, rest_b + v * kLanes), lane);
    }
  }
  return fold_lanes(lanes);
}

void attention_delta(const AttentionDelta& op, ThreadPool& pool) {
  check_operands(op);
  constexpr int64_t kTokens = 16;  // of an item
  pool.run(ceil_div(op.out.tokens, kTokens), [&](int64_t item, int) {
    const int64_t end = std::min(op.out.tokens, (item + 1) * kTokens);
    for (int64_t t = item * kTokens; t < end; ++t) {
      for (int64_t h = 0; h < op.out.heads; ++h) {
        op.delta[t * op.out.heads + h] = row_product(op.dout.at(t, h), op.out.at(t, h), op.out.dim);
      }
    }
  });
}

}  // namespace
}  // namespace attn

void fill_attention_delta(KernelSet& set) { set.attention_delta = attn::attention_delta; }

}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rlreplay::kernels::cpu {

void add_attention(KernelSet& set, int64_t target) {
  choose(target, HWY_CHOOSE_AVX3(fill_attention_delta), HWY_CHOOSE_AVX2(fill_attention_delta),
         HWY_CHOOSE_NEON(fill_attention_delta))(set);
  add_attention_forward(set, target);
  add_attention_backward(set, target);
}

}  // namespace rlreplay::kernels::cpu
#endif
