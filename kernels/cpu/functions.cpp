#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/functions.cpp"
#include "kernels/functions.h"

#include <hwy/foreach_target.h>  // compiles this file once per target
#include <hwy/highway.h>

#include "kernels/cpu/arithmetic-inl.h"
#include "kernels/cpu/dispatch.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {
namespace {

template <Simd::F (*function)(Simd::F)>
void each(std::span<const float> x, float* y) {
  const Simd::D d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= x.size(); i += lanes) {
    hn::StoreU(function(hn::LoadU(d, x.data() + i)), d, y + i);
  }
  if (i == x.size()) return;
  HWY_ALIGN float rest[hn::MaxLanes(Simd::D())] = {};
  for (size_t j = i; j < x.size(); ++j) rest[j - i] = x[j];
  hn::Store(function(hn::Load(d, rest)), d, rest);
  for (size_t j = i; j < x.size(); ++j) y[j] = rest[j - i];
}

}  // namespace

void apply(Function function, std::span<const float> x, float* y) {
  switch (function) {
    case Function::kExp:
      return each<exp<Simd>>(x, y);
    case Function::kLog:
      return each<log<Simd>>(x, y);
    case Function::kExpm1:
      return each<expm1<Simd>>(x, y);
    case Function::kK3:
      return each<k3<Simd>>(x, y);
    case Function::kSigmoid:
      return each<sigmoid<Simd>>(x, y);
    case Function::kSilu:
      return each<silu<Simd>>(x, y);
    case Function::kTanh:
      return each<tanh<Simd>>(x, y);
    case Function::kRsqrt:
      return each<rsqrt<Simd>>(x, y);
  }
}

}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rlreplay::kernels {
namespace cpu {

using Apply = void (*)(Function function, std::span<const float> x, float* y);

Apply choose_apply(int64_t target) {
  return choose<Apply>(target, HWY_CHOOSE_AVX3(apply), HWY_CHOOSE_AVX2(apply),
                       HWY_CHOOSE_NEON(apply));
}

}  // namespace cpu

const std::vector<FunctionSet>& simd_functions() {
  static const std::vector<FunctionSet> sets = [] {
    std::vector<FunctionSet> out;
    // Lower bits are better targets.
    for (int64_t targets = hwy::SupportedTargets() & cpu::kTargets; targets != 0;
         targets &= targets - 1) {
      const int64_t target = targets & -targets;
      out.push_back({cpu::target_name(target), cpu::choose_apply(target)});
    }
    return out;
  }();
  return sets;
}

}  // namespace rlreplay::kernels
#endif
