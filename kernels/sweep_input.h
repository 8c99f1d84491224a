#pragma once

#include <cstdint>

#include "kernels/mix.h"

/// The inputs that a sweep of a function looks at, the same on host and device.
namespace rlreplay::kernels {

inline constexpr uint32_t kSweepEdges = 32;

/// What a stratum may miss: zeros, the ends of the subnormals and of everything, where the
/// functions saturate or change their program, and neighbours of these.
RLREPLAY_INLINE uint32_t sweep_edge(uint64_t i) {
  constexpr uint32_t kEdges[kSweepEdges] = {
      0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000,
      0x80800000, 0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
      0x7fc00000, 0xffc00000, 0x7f800001, 0xffffffff, 0x42b17217, 0x42b17218, 0x42b20000,
      0xc2aeac50, 0xc2cff1b4, 0xc2cff1b5, 0xc2dc0000, 0xc18aa123, 0xc18aa124, 0x3f7fffff,
      0xbf7fffff, 0x3f3504f3, 0x3f3504f4, 0x43000000,
  };
  return kEdges[i];
}

/// How many inputs: all 2^32 for samples = 0, else one of each of `samples` equal strata (a power
/// of two), and the edges.
RLREPLAY_INLINE uint64_t sweep_size(uint64_t samples) {
  return samples == 0 ? uint64_t{1} << 32 : samples + kSweepEdges;
}

/// The bits of input i.
RLREPLAY_INLINE uint32_t sweep_input(uint64_t i, uint64_t samples, uint64_t seed) {
  if (samples == 0) return static_cast<uint32_t>(i);
  if (i >= samples) return sweep_edge(i - samples);
  const uint64_t width = (uint64_t{1} << 32) / samples;
  return static_cast<uint32_t>(i * width + (mix((seed << 32) + i) & (width - 1)));
}

}  // namespace rlreplay::kernels
