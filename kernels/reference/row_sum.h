#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/order.h"

/// The sums along a row, as plain loops (docs/numerics.md section 2).
namespace rlreplay::kernels::reference {

/// `row(n)`: `term(i, lane)` adds or fuses element i to a lane and returns it.
/// Order: element i goes to lane i mod 32, ascending inside a block of 1024; the lanes of a block
/// are folded by xor 16, 8, 4, 2, 1; blocks are folded left to right from +0.
template <class Term>
[[nodiscard]] float row(int64_t n, Term term) {
  float total = 0;
  for (int64_t block = 0; block < n; block += kRowBlock) {
    float lane[kRowLanes] = {};
    for (int64_t i = block; i < std::min(n, block + kRowBlock); ++i) {
      lane[i % kRowLanes] = term(i, lane[i % kRowLanes]);
    }
    for (int64_t distance = kRowLanes / 2; distance > 0; distance /= 2) {
      for (int64_t j = 0; j < distance; ++j) lane[j] = lane[j] + lane[j + distance];
    }
    total = total + lane[0];
  }
  return total;
}

/// The perfect binary tree ((s0 + s1) + (s2 + s3)) + ... over a power of two of values.
[[nodiscard]] inline float tree(const float* s, int64_t n) {
  return n == 1 ? s[0] : tree(s, n / 2) + tree(s + n / 2, n / 2);
}

}  // namespace rlreplay::kernels::reference
