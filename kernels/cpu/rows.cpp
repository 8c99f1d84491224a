#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows.cpp"
#include <algorithm>

#include <hwy/foreach_target.h>  // compiles this file once per target
#include <hwy/highway.h>

#include "kernels/cpu/arithmetic-inl.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dispatch.h"
#include "src/base/thread_pool.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {
namespace {

void add(const Add& op, ThreadPool& pool) {
  constexpr int64_t kRows = 16;  // rows of an item
  const Simd::D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  pool.run((op.y.rows + kRows - 1) / kRows, [&](int64_t item, int) {
    for (int64_t t = item * kRows; t < std::min(op.y.rows, (item + 1) * kRows); ++t) {
      const float *a = op.a.row(t), *b = op.b.row(t);
      float* y = op.y.row(t);
      int64_t i = 0;
      for (; i + lanes <= op.y.cols; i += lanes) {
        hn::StoreU(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i);
      }
      for (; i < op.y.cols; ++i) y[i] = a[i] + b[i];
    }
  });
}

}  // namespace

void fill_rows(KernelSet& set) { set.add = add; }

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
