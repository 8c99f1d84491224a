#pragma once

#include <cstdint>

#include "kernels/contract.h"

namespace rlreplay::kernels {

/// The finalizer of splitmix64: a bijection that spreads every bit. Sums modulo 2^64 of it make
/// the digests of probes and sweeps, equal in any order and on any device; not for files.
RLREPLAY_INLINE uint64_t mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/// One (input, output) pair of a function; every NaN counts alike.
RLREPLAY_INLINE uint64_t mix_pair(uint32_t input, float output) {
  uint32_t bits = 0x7fc00000u;
  if (output == output) memcpy(&bits, &output, sizeof bits);
  return mix(static_cast<uint64_t>(input) << 32 | bits);
}

}  // namespace rlreplay::kernels
