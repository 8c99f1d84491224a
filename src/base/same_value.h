#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <utility>

/// The one meaning of equal, for every comparison of recorded numbers.
namespace rlreplay {

/// By bits: -0 is not +0, and a NaN equals every NaN and nothing else. A binary32 equals the
/// binary64 of its value.
template <std::floating_point X, std::floating_point Y>
bool same_value(X a, Y b) {
  const auto x = static_cast<double>(a), y = static_cast<double>(b);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y);
}

/// As integers, whatever their widths and signs.
template <std::integral X, std::integral Y>
bool same_value(X a, Y b) {
  return std::cmp_equal(+a, +b);  // characters are no integers there
}

}  // namespace rlreplay
