#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vocab.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per target
#include <hwy/highway.h>

#include "kernels/cpu/arithmetic-inl.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dispatch.h"
#include "src/base/thread_pool.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {
namespace {}  // namespace

void fill_vocab(KernelSet&) {}

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
