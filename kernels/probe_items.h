#pragma once

#include <cstdint>

#include "kernels/mix.h"
#include "kernels/order.h"
#include "kernels/token_sum.h"

/// What a probe of the arithmetic computes, on host and device: numbers that are hard on hardware
/// and compilers, every primitive operation on them, one product, and exact sums.
namespace rlreplay::kernels::probe {

using contract::Scalar;

inline constexpr uint32_t kItems = 4096;

RLREPLAY_INLINE float float_of(uint32_t bits) {
  return Scalar::from_bits(static_cast<int32_t>(bits));
}

/// One of eight kinds by the low bits of r: zeros, subnormals, the least normals, the greatest,
/// few bits around 1 (ties), powers of two, small integers and halves, anything finite.
RLREPLAY_INLINE float hard_number(uint64_t r) {
  const uint32_t sign = static_cast<uint32_t>(r >> 3 & 1) << 31;
  const uint32_t fraction = static_cast<uint32_t>(r >> 8) & 0x7fffff;
  const uint32_t some = static_cast<uint32_t>(r >> 40);
  const uint32_t few = 1u << (some % 23) | 1u << (some / 23 % 23);
  switch (r & 7) {
    case 0:
      return float_of(sign);
    case 1:
      return float_of(sign | (some % 4 == 0 ? fraction >> (some % 22) : fraction));
    case 2:
      return float_of(sign | (1 + some % 3) << 23 | fraction);
    case 3:
      return float_of(sign | (254 - some % 3) << 23 | fraction);
    case 4:
      return float_of(sign | (126 + some % 3) << 23 | few);
    case 5:
      return float_of(sign | (1 + some % 254) << 23);
    case 6:
      return Scalar::to_float(static_cast<int32_t>(some % 65536) - 32768) * 0.5f;
    default:
      return float_of(sign | (1 + some % 254) << 23 | fraction);
  }
}

/// A hash of `value` under a name. Digests are sums of them, so the order of items plays no part.
RLREPLAY_INLINE uint64_t mix_integer(uint64_t name, uint64_t value) {
  return mix(mix(name) ^ value);
}

/// Rounded to bf16 by integers, ties to even.
RLREPLAY_INLINE float to_bf16(float x) {
  const uint32_t bits = static_cast<uint32_t>(Scalar::bits(x));
  return float_of((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
}

/// A binary64 result; every NaN counts alike.
RLREPLAY_INLINE uint64_t mix_double(uint64_t name, double value) {
  uint64_t bits = 0x7ff8000000000000u;
  if (value == value) memcpy(&bits, &value, sizeof bits);
  return mix_integer(name, bits);
}

/// The digest of the binary64 operations that AdamW runs, on three hard numbers.
RLREPLAY_INLINE uint64_t binary64_operations(uint32_t i, double a, double b, double c) {
  uint64_t name = uint64_t{1} << 40 | uint64_t{i} << 3;
  uint64_t sum = 0;
  const auto see = [&](double result) { sum += mix_double(name++, result); };
  see(a + b);
  see(a * b);
  see(a / 3 * b + c / 3);  // not fused
  see(a / b);
  see(sqrt(a < 0 ? -a : a));
  see(fma(a, b / 3, c));
  see(static_cast<double>(static_cast<float>(a / b)));
  return sum;
}

/// The digest of every primitive operation on three hard numbers.
RLREPLAY_INLINE uint64_t operations(uint32_t i) {
  const float a = hard_number(mix(3 * uint64_t{i})), b = hard_number(mix(3 * uint64_t{i} + 1)),
              c = hard_number(mix(3 * uint64_t{i} + 2));
  uint64_t sum = 0;
  uint32_t name = i << 5;
  const auto see = [&](float result) { sum += mix_pair(name++, result); };
  see(Scalar::add(a, b));
  see(Scalar::sub(a, b));
  see(Scalar::mul(a, b));
  see(Scalar::div(a, b));
  see(Scalar::sqrt(a));
  see(Scalar::fma(a, b, c));
  // What a rounded product lost; zero where multiplication and addition are not fused.
  see(Scalar::fma(a, b, -Scalar::mul(a, b)));
  // Must not be fused: the product is rounded first.
  see(Scalar::add(Scalar::mul(a, b), c));
  see(Scalar::sub(Scalar::mul(a, b), Scalar::mul(b, c)));
  see(Scalar::min(a, b));
  see(Scalar::max(a, b));
  see(Scalar::select(Scalar::less(a, b), c, a));
  see(Scalar::select(Scalar::equal(a, b), c, b));
  see(Scalar::to_float(Scalar::to_int(a)));
  see(Scalar::to_float(Scalar::bits(b)));
  see(static_cast<float>(static_cast<double>(a) * static_cast<double>(b)));
  see(static_cast<float>(static_cast<int64_t>(mix(i)) >> (i % 64)));
  if (a == a && b == b) see(to_bf16(a));
  see(contract::exp<Scalar>(a));
  see(contract::log<Scalar>(b));
  see(contract::expm1<Scalar>(c));
  see(contract::k3<Scalar>(a));
  see(contract::sigmoid<Scalar>(b));
  see(contract::silu<Scalar>(c));
  see(contract::tanh<Scalar>(a));
  see(contract::rsqrt<Scalar>(b));
  for (int scale = 30; scale <= 46; scale += 8) {
    const TokenRounding rounding{0x1p10f, static_cast<double>(int64_t{1} << scale)};
    const bool accepted = rounding.accepts(a);
    sum += mix_integer(name++, accepted ? static_cast<uint64_t>(rounding.round(a)) : 1);
  }
  return sum + binary64_operations(i, static_cast<double>(a), static_cast<double>(b),
                                   static_cast<double>(c));
}

inline constexpr int64_t kProductRows = 16;
inline constexpr int64_t kProductColumns = 24;
inline constexpr int64_t kProductInner = 5003;
inline constexpr int64_t kProductSegments = 8;

/// Elements of the two factors of the probe's product.
RLREPLAY_INLINE float factor(uint64_t matrix, int64_t row, int64_t k) {
  const uint64_t r =
      mix((matrix << 40) + (static_cast<uint64_t>(row) << 20) + static_cast<uint64_t>(k));
  return static_cast<float>(static_cast<int64_t>(r >> 40) - (1 << 23)) * 0x1p-22f;
}

/// Element (row, column) of x w^T in the order dot(K, T): fma chains over leaves, leaves
/// folded from the left, segments by the binary tree.
RLREPLAY_INLINE float product(int64_t row, int64_t column) {
  float part[kProductSegments];
  for (int64_t s = 0; s < kProductSegments; ++s) {
    const int64_t end = (s + 1) * kProductInner / kProductSegments;
    float sum = 0;
    for (int64_t begin = s * kProductInner / kProductSegments; begin < end; begin += kDotLeaf) {
      float leaf = 0;
      for (int64_t k = begin; k < begin + kDotLeaf && k < end; ++k) {
        leaf = Scalar::fma(factor(1, row, k), factor(2, column, k), leaf);
      }
      sum = Scalar::add(sum, leaf);
    }
    part[s] = sum;
  }
  for (int64_t step = 1; step < kProductSegments; step *= 2) {
    for (int64_t s = 0; s < kProductSegments; s += 2 * step) {
      part[s] = Scalar::add(part[s], part[s + step]);
    }
  }
  return part[0];
}

/// How many contributions the probe's exact sums get, and how many sums there are.
inline constexpr uint32_t kContributions = 1 << 16;
inline constexpr uint32_t kSums = 64;

/// Contribution i, in units of 2^-46; 0 where it is not accepted. It goes to sum i % kSums.
RLREPLAY_INLINE int64_t contribution(uint32_t i) {
  const TokenRounding rounding{0x1p10f, 0x1p46};
  const float a = hard_number(mix(i + (uint64_t{1} << 50)));
  return rounding.accepts(a) ? rounding.round(a) : 0;
}

}  // namespace rlreplay::kernels::probe
