// Whole and partial vectors: included after <hwy/highway.h>, once per target.
#if defined(RLREPLAY_KERNELS_CPU_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLREPLAY_KERNELS_CPU_VECTORS_INL_H_
#undef RLREPLAY_KERNELS_CPU_VECTORS_INL_H_
#else
#define RLREPLAY_KERNELS_CPU_VECTORS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

#include "kernels/cpu/arithmetic-inl.h"
#include "kernels/cpu/dispatch.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {

inline constexpr int64_t kLanes = hn::MaxLanes(Simd::D());

/// Access to one vector of memory.
struct Whole {
  HWY_INLINE Simd::F load(const float* p) const { return hn::LoadU(Simd::D(), p); }
  HWY_INLINE void store(Simd::F v, float* p) const { hn::StoreU(v, Simd::D(), p); }
  /// `yes` where there is memory, else `no`.
  HWY_INLINE Simd::F keep(Simd::F yes, Simd::F) const { return yes; }
};

/// Access to the first n elements of a vector, 0 < n < kLanes, and to nothing after them. It goes
/// through a buffer where the target's masked operations may touch the rest.
struct Part {
  int64_t n;

  HWY_INLINE Simd::M mask() const { return hn::FirstN(Simd::D(), static_cast<size_t>(n)); }
  HWY_INLINE Simd::F load(const float* p) const {
    const Simd::D d;
#if HWY_MEM_OPS_MIGHT_FAULT
    HWY_ALIGN float buffer[kLanes] = {};
    std::memcpy(buffer, p, static_cast<size_t>(n) * sizeof(float));
    return hn::Load(d, buffer);
#else
    return hn::MaskedLoad(mask(), d, p);
#endif
  }
  HWY_INLINE void store(Simd::F v, float* p) const {
    const Simd::D d;
#if HWY_MEM_OPS_MIGHT_FAULT
    HWY_ALIGN float buffer[kLanes];
    hn::Store(v, d, buffer);
    std::memcpy(p, buffer, static_cast<size_t>(n) * sizeof(float));
#else
    hn::BlendedStore(v, mask(), d, p);
#endif
  }
  HWY_INLINE Simd::F keep(Simd::F yes, Simd::F no) const { return hn::IfThenElse(mask(), yes, no); }
};

/// Calls body(access, i) for i = 0, kLanes, ... below n; the access of the last one may be a Part.
template <class Body>
HWY_INLINE void each_vector(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(Whole(), i);
  if (i < n) body(Part{n - i}, i);
}

}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // per-target guard
