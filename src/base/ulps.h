#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

/// Distances between floating-point numbers, counted in numbers between them.
namespace rlreplay {

/// Where a number stands among all of its type: equal for both zeros, one more for each next
/// number.
template <class T>
int64_t ulp_rank(T value) {
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  const Bits bits = std::bit_cast<Bits>(value);
  const int64_t magnitude = bits & std::numeric_limits<Bits>::max();
  return bits < 0 ? -magnitude : magnitude;
}

/// How many steps lie from a to b; none where one is not a number or they do not fit.
template <class T>
std::optional<int64_t> ulp_distance(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return {};
  int64_t distance = 0;
  if (__builtin_sub_overflow(ulp_rank(b), ulp_rank(a), &distance)) return {};
  return distance;
}

/// Numbers further apart, or on both sides of zero, are told by their difference: so many ulps say
/// nothing.
inline constexpr int64_t kFarUlps = int64_t{1} << 20;

/// The number that lies `ulps` above `value`; none where it would not be finite.
template <class T>
std::optional<T> add_ulps(T value, int64_t ulps) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  int64_t rank = 0;
  if (!std::isfinite(value)) return {};
  if (__builtin_add_overflow(ulp_rank(value), ulps, &rank)) return {};
  const int64_t largest = ulp_rank(std::numeric_limits<T>::max());
  if (rank > largest || rank < -largest) return {};
  const auto magnitude = static_cast<Bits>(rank < 0 ? -rank : rank);
  const T out = std::bit_cast<T>(magnitude);
  return rank < 0 ? -out : out;
}

}  // namespace rlreplay
