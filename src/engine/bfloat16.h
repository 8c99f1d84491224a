#pragma once

#include <bit>
#include <cstdint>

#include "kernels/view.h"

namespace rlreplay::engine {

/// The nearest bfloat16, ties to even; NaN stays NaN.
[[nodiscard]] inline float round_to_bfloat16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000;
  return x == x ? std::bit_cast<float>(rounded) : x;
}

/// Rounds every element where it stands; how many that changed.
[[nodiscard]] inline int64_t round_to_bfloat16(kernels::Matrix<float> m) {
  int64_t changed = 0;
  for (int64_t i = 0; i < m.rows; ++i) {
    float* row = m.row(i);
    for (int64_t j = 0; j < m.cols; ++j) {
      const float rounded = round_to_bfloat16(row[j]);
      changed += rounded != row[j];
      row[j] = rounded;
    }
  }
  return changed;
}

/// Rounds every element where it stands.
inline void round_elements(kernels::Matrix<float> m) { static_cast<void>(round_to_bfloat16(m)); }

}  // namespace rlreplay::engine
