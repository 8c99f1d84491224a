#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/draw_tokens.h"

namespace rlreplay::kernels::cpu {

/// A logit and its id.
struct Ranked {
  float value = 0;
  int32_t id = 0;
};

/// Logits are put into bins by their distance from the maximum, best first; into the last one all
/// that lie 32 or more below it, of probability below e^-32.
inline constexpr int kBins = 1024;
inline constexpr float kBinsPerUnit = 32;

/// The parts of the search that a SIMD target computes, for tiles of kTile logits.
struct BorderTiles {
  static constexpr int64_t kTile = 1024;
  void (*bins)(const float* logits, float max, int32_t* out);
  void (*probabilities)(const float* logits, float max, float inverse, float* out);
};

/// Finds the last id that stays after top-k and top-p, by (value descending, id ascending), without
/// sorting the row: a histogram finds the bin where the border lies, and only that bin is sorted.
class BorderSearch {
 public:
  static size_t scratch_bytes(int64_t vocab);

  BorderSearch(const DrawTokens& op, int64_t t, const BorderTiles& tiles, std::byte* scratch);

  [[nodiscard]] Ranked find();

  /// The lowest id that stays when `last` is the last one.
  int32_t lowest(Ranked last) const;

 private:
  template <class Each>
  void for_tiles(bool masses, Each&& each);
  void fill_histogram(bool masses);
  int64_t collect(int bin, int64_t needed);
  uint64_t mass(Ranked candidate) const;
  Ranked top_p_border(int last_bin, int64_t kept_of_last_bin, uint64_t kept);

  const DrawTokens& op_;
  const BorderTiles& tiles_;
  const float* logits_;
  float max_;
  float inverse_;
  uint64_t* masses_;  // [kBins]
  int64_t* counts_;   // [kBins]
  Ranked* found_;     // [vocab]: the sorted candidates of the bin collected last
};

}  // namespace rlreplay::kernels::cpu
