#pragma once

#include <cstdint>

/// A process proves its arithmetic before a run: another library may have switched on
/// flush-to-zero, a compiler may have been asked to be fast rather than right.
namespace rlreplay {
class ThreadPool;
}

namespace rlreplay::kernels {

/// Digests of the calling thread's arithmetic: a few thousand primitive operations, in binary64
/// those that AdamW runs, and functions; a product in the contract's order; exact sums.
struct ProbeDigests {
  uint64_t operations = 0;
  uint64_t product = 0;
  uint64_t sums = 0;
  friend bool operator==(const ProbeDigests&, const ProbeDigests&) = default;
};

/// Runs the probe on the calling thread, whatever comes of it.
[[nodiscard]] ProbeDigests probe_arithmetic();

/// The digests of every machine, compiler and thread that keeps the contract.
inline constexpr ProbeDigests kProbeDigests = {0xec98a8111128b0e2, 0xc300906d8d25830c,
                                               0xdf00c8c38ecc36bb};

/// Compares the probe's digests, and the functions of every SIMD target with the scalar ones, on
/// the calling thread.
/// Errors: kEnvironment, with what is likely wrong.
void prove_arithmetic();

/// Proves the arithmetic of every thread of a pool: rounding and flush-to-zero belong to a thread.
/// Errors: as above.
void prove_arithmetic(ThreadPool& pool);

}  // namespace rlreplay::kernels
