#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>

#include "kernels/contract.h"
#include "kernels/view.h"

namespace rlreplay::kernels {

/// What a TokenSum did not accept. Workers add in any order.
class Rejected {
 public:
  [[nodiscard]] bool any() const { return first_ != kNothing; }
  /// Whether all of it are numbers, which a smaller scale may take.
  [[nodiscard]] bool finite() const { return (first_ & kFinite) != 0; }
  /// The first element of the sum, row-major, that a contribution which is no finite number was
  /// meant for; where all are finite, the first that one was too large for.
  int64_t element() const { return static_cast<int64_t>(first_ & ~kFinite); }

  void add(float a, int64_t element) {
    const uint64_t key = static_cast<uint64_t>(element) | (std::isfinite(a) ? kFinite : 0);
    std::atomic_ref<uint64_t> first(first_);
    uint64_t seen = first.load(std::memory_order_relaxed);
    while (key < seen && !first.compare_exchange_weak(seen, key, std::memory_order_relaxed)) {
    }
  }

  friend bool operator==(const Rejected&, const Rejected&) = default;

 private:
  static constexpr uint64_t kFinite = uint64_t{1} << 62;
  static constexpr uint64_t kNothing = ~uint64_t{0};
  uint64_t first_ = kNothing;
};

/// An exact sum over tokens: every contribution is rounded to the nearest multiple of 2^-scale,
/// ties to even, and added to an int64, so that no split and no order of the tokens can change a
/// bit. Partial sums may wrap; only single contributions are judged.
///
/// Units: sum[i] counts 2^-scale.
/// Errors: a contribution is accepted if and only if |a| < 2^(62 - scale - ceil(log2
/// contributions)), which NaN fails; one that is not adds nothing and is noted in *rejected. Where
/// all that is noted is finite, the caller redoes the whole backward at scale - 8.
struct TokenSum {
  Matrix<int64_t> sum;           // the shape of the parameter; a vector has one row
  int scale = 0;                 // S
  int64_t contributions = 1;     // to this tensor, in the global batch, padding not counted
  Rejected* rejected = nullptr;  // added to, never cleared

  /// Row-major, as Rejected counts.
  int64_t element(int64_t row, int64_t col) const { return row * sum.cols + col; }
};

/// 62 - scale - ceil(log2 contributions): |a| must be below 2^limit_exponent.
[[nodiscard]] int limit_exponent(int scale, int64_t contributions);

/// The rule of TokenSum on one contribution; host and device.
struct TokenRounding {
  float limit = 0;  // 2^limit_exponent, infinity if that is too large
  double unit = 1;  // 2^scale

  RLREPLAY_INLINE bool accepts(float a) const { return fabsf(a) < limit; }
  /// `a` must have been accepted: the product is exact and below 2^62, so one rounding is left.
  RLREPLAY_INLINE int64_t round(float a) const {
    return static_cast<int64_t>(llrint(static_cast<double>(a) * unit));
  }
};

/// The rule of one sum, by its scale and its number of contributions.
[[nodiscard]] TokenRounding token_rounding(const TokenSum& sum);

/// a + b modulo 2^64.
RLREPLAY_INLINE int64_t add_wrapping(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

/// Adds one contribution to to.sum(row, col), or notes it; `rounding` is token_rounding(to).
inline void contribute(const TokenRounding& rounding, float a, const TokenSum& to, int64_t row,
                       int64_t col) {
  if (rounding.accepts(a)) {
    int64_t& sum = to.sum(row, col);
    sum = add_wrapping(sum, rounding.round(a));
  } else {
    to.rejected->add(a, to.element(row, col));
  }
}

/// The scale S of a step: min(126, 46 - ceil(log2 weight)), negative for large weights; a weight of
/// 0 counts as 1.
/// Units: weight is the total loss weight in binary64 (docs/numerics.md section 2).
/// Errors: kUsage unless it is finite and not negative.
[[nodiscard]] int token_scale(double weight);

}  // namespace rlreplay::kernels
