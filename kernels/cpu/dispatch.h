#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include <hwy/highway.h>

#include "kernels/kernels.h"

/// Targets whose MulAdd is one rounding. Highway always compiles its static target too; where that
/// one does not fuse (x86-64 without AVX2), the files leave it empty, and the reference set runs.
#define RLREPLAY_FUSED_TARGETS (HWY_AVX2 | HWY_AVX3 | HWY_NEON)

namespace rlreplay::kernels::cpu {

inline constexpr int64_t kTargets = HWY_TARGETS & RLREPLAY_FUSED_TARGETS;

/// Enters the operations of a family, compiled for one target, into a table.
using Fill = void (*)(KernelSet& set);

/// The version of a function for `target`; Highway's HWY_CHOOSE_<target>(function) is null where a
/// target is not compiled.
template <class T = Fill>
[[nodiscard]] constexpr T choose(int64_t target, std::type_identity_t<T> avx3,
                                 std::type_identity_t<T> avx2, std::type_identity_t<T> neon) {
  return target == HWY_AVX3 ? avx3 : target == HWY_AVX2 ? avx2 : neon;
}

[[nodiscard]] constexpr std::string_view target_name(int64_t target) {
  return target == HWY_AVX3 ? "avx512" : target == HWY_AVX2 ? "avx2" : "neon";
}

}  // namespace rlreplay::kernels::cpu
