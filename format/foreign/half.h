#pragma once

#include <bit>
#include <cmath>
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

/// The nearest bfloat16, of two as near the even one; a NaN stays one.
[[nodiscard]] inline uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/// The nearest IEEE binary16, of two as near the even one; a NaN stays one.
[[nodiscard]] inline uint16_t float_to_float16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) {
    return static_cast<uint16_t>(sign | 0x7E00 | (magnitude >> 13 & 0x3FF));
  }
  if (magnitude >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7C00);  // 65520 and on
  if (magnitude >= 0x38800000) {                                             // 2^-14 and on
    const uint32_t biased = magnitude - 0x38000000;
    return static_cast<uint16_t>(sign | (biased + 0xFFF + (biased >> 13 & 1)) >> 13);
  }
  // A subnormal counts units of 2^-24; nearbyint takes the even one of two.
  const float units = std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p24F);
  return static_cast<uint16_t>(sign | static_cast<uint32_t>(units));
}

/// Whether binary32 holds a number exactly, a NaN's payload and the sign of zero included.
[[nodiscard]] inline bool fits_float(double value) {
  const auto narrow = static_cast<double>(static_cast<float>(value));
  return std::bit_cast<uint64_t>(narrow) == std::bit_cast<uint64_t>(value);
}

}  // namespace rlreplay::foreign
