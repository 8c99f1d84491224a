#pragma once

#include <cstdint>
#include <span>

#include "kernels/philox.h"
#include "kernels/view.h"

/// Drawing tokens (docs/numerics.md section 6).
namespace rlreplay::kernels {

inline constexpr uint64_t kSampleIds = uint64_t{1} << 56;  // the noise's counter takes 56 bits

/// What is drawn for one row.
struct Draw {
  uint64_t sample = 0;    // sample id, below kSampleIds
  uint32_t position = 0;  // index in the sample of the token that is drawn
};

/// Draws a token a row: the largest l - log(-log u), ties to the lowest id, with Gumbel noise of a
/// counter-based Philox4x32-10 that belongs to the vocabulary id. Top-k first, then top-p over
/// integer masses.
/// Shapes: logits [T, V] after VocabMax, the whole vocabulary, V >= 1; max, sum [T] (Z); draws, ids
/// [T]. greedy: argmax without noise, top_k and top_p are ignored; top_k 0: all; top_p in (0, 1], 1
/// switches it off. max and sum are read only where top_p < 1 or top_k > 0. No logit is a NaN: what
/// is drawn where one is, is no promise.
/// Order: any, masses are integers; top-p takes ids by descending logit, then by ascending id.
struct DrawTokens {
  Matrix<const float> logits;
  const float* max = nullptr;
  const float* sum = nullptr;
  std::span<const Draw> draws;
  uint64_t seed = 0;
  uint8_t stream = 0;
  bool greedy = false;
  int64_t top_k = 0;
  double top_p = 1;
  int32_t* ids = nullptr;
};

/// The noise of ids 4 i to 4 i + 3 is the four words of philox(noise_counter(..., i), seed).
[[nodiscard]] inline Words4 noise_counter(const Draw& draw, uint8_t stream, uint32_t i) {
  return {{i, draw.position, static_cast<uint32_t>(draw.sample),
           static_cast<uint32_t>(draw.sample >> 32) | static_cast<uint32_t>(stream) << 24}};
}

/// floor(p 2^32), the mass of an id in top-p. p is a probability; anything else has none.
[[nodiscard]] inline uint64_t integer_mass(float p) {
  const float scaled = p * 0x1p32f;
  return scaled >= 1 && scaled < 0x1p63f ? static_cast<uint64_t>(scaled) : 0;
}

/// Whether an id stays in top-p when the ids before it have mass `before`, out of `kept`.
/// Units: top_p counts 2^-24.
[[nodiscard]] inline bool stays_in_top_p(uint64_t before, uint64_t top_p, uint64_t kept) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<Wide>(before) << 24 < static_cast<Wide>(top_p) * kept;
}

/// floor(top_p 2^24).
[[nodiscard]] inline uint64_t top_p_units(double top_p) {
  return static_cast<uint64_t>(top_p * 0x1p24);
}

}  // namespace rlreplay::kernels
