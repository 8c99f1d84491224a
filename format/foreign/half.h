#pragma once

#include <bit>
#include <cstdint>

namespace rlreplay::foreign {

/// A bfloat16 widened to binary32; exact, NaN payloads included.
[[nodiscard]] inline float bfloat16_to_float(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

/// An IEEE binary16 widened to binary32; exact, NaN payloads included.
[[nodiscard]] inline float float16_to_float(uint16_t bits) {
  const uint32_t sign = uint32_t{bits} >> 15 << 31;
  const uint32_t exponent = bits >> 10 & 0x1F;
  const uint32_t fraction = bits & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000 | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  // A subnormal is fraction * 2^-24, exact in binary32.
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

/// Whether binary32 holds a number exactly, a NaN's payload and the sign of zero included.
[[nodiscard]] inline bool fits_float(double value) {
  const auto narrow = static_cast<double>(static_cast<float>(value));
  return std::bit_cast<uint64_t>(narrow) == std::bit_cast<uint64_t>(value);
}

}  // namespace rlreplay::foreign
