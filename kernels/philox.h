#pragma once

#include <cstdint>

#include "kernels/contract.h"

/// Counter-based random numbers: what a number is depends on its name, never on who asked first.
namespace rlreplay::kernels {

/// A counter of Philox, or the four random words that it gives.
struct Words4 {
  uint32_t word[4];
};

inline constexpr uint32_t kPhiloxMultiply0 = 0xD2511F53u;
inline constexpr uint32_t kPhiloxMultiply1 = 0xCD9E8D57u;
inline constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9u;
inline constexpr uint32_t kPhiloxWeyl1 = 0xBB67AE85u;
inline constexpr int kPhiloxRounds = 10;

/// Philox4x32-10: every counter and key name four words that no other call changes.
/// Source: Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (2011).
RLREPLAY_INLINE Words4 philox(Words4 counter, uint64_t key) {
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t a = uint64_t{kPhiloxMultiply0} * counter.word[0];
    const uint64_t b = uint64_t{kPhiloxMultiply1} * counter.word[2];
    counter = {{static_cast<uint32_t>(b >> 32) ^ counter.word[1] ^ key0, static_cast<uint32_t>(b),
                static_cast<uint32_t>(a >> 32) ^ counter.word[3] ^ key1, static_cast<uint32_t>(a)}};
    key0 += kPhiloxWeyl0;
    key1 += kPhiloxWeyl1;
  }
  return counter;
}

/// (top 23 bits + 1/2) 2^-23: exact, never 0 and never 1. With 24 bits the largest would round to
/// 1, and its Gumbel noise, infinity, would choose a token of probability zero.
RLREPLAY_INLINE float open_unit(uint32_t word) {
  return (static_cast<float>(word >> 9) + 0.5f) * 0x1p-23f;
}

}  // namespace rlreplay::kernels
