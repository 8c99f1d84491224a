#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

/// The one meaning of equal, for every comparison of recorded numbers, and how far apart two are.
namespace rlreplay {

/// Whether two floats are equal by their bits: -0 is not +0, but a NaN equals every NaN and nothing
/// else. A binary32 equals the binary64 of its value.
template <std::floating_point X, std::floating_point Y>
[[nodiscard]] bool same_value(X a, Y b) {
  const auto x = static_cast<double>(a), y = static_cast<double>(b);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y);
}

/// Whether two integers are equal, whatever their widths and signs.
template <std::integral X, std::integral Y>
[[nodiscard]] bool same_value(X a, Y b) {
  return std::cmp_equal(+a, +b);  // characters are no integers there
}

/// The place of a number among all of its type: both zeros have one, each next number the next.
template <class T>
[[nodiscard]] int64_t ulp_rank(T value) {
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  const Bits bits = std::bit_cast<Bits>(value);
  const int64_t magnitude = bits & std::numeric_limits<Bits>::max();
  return bits < 0 ? -magnitude : magnitude;
}

/// How many steps lie from a to b; none where one is not a number or they do not fit.
template <class T>
[[nodiscard]] std::optional<int64_t> ulp_distance(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return {};
  int64_t distance = 0;
  if (__builtin_sub_overflow(ulp_rank(b), ulp_rank(a), &distance)) return {};
  return distance;
}

/// Numbers that lie further apart, or on both sides of zero, are told by their difference: so many
/// ulps say nothing.
inline constexpr int64_t kFarUlps = int64_t{1} << 20;

/// The number that lies `ulps` above `value`; none where it would not be finite.
template <class T>
[[nodiscard]] std::optional<T> add_ulps(T value, int64_t ulps) {
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
