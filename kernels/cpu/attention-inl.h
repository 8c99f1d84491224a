// What attention forward and backward share: small register-blocked products, packed keys, folds of
// lanes. Included by files that foreach_target compiles, hence the guard per target.
#if defined(RLREPLAY_KERNELS_CPU_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLREPLAY_KERNELS_CPU_ATTENTION_INL_H_
#undef RLREPLAY_KERNELS_CPU_ATTENTION_INL_H_
#else
#define RLREPLAY_KERNELS_CPU_ATTENTION_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/attention.h"
#include "kernels/cpu/arithmetic-inl.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/order.h"

#if HWY_TARGET & RLREPLAY_FUSED_TARGETS
HWY_BEFORE_NAMESPACE();
namespace rlreplay::kernels::cpu::HWY_NAMESPACE {
namespace attn {

using D = Simd::D;
using V = Simd::F;
inline constexpr int64_t kLanes = hn::MaxLanes(D());
inline constexpr int kTileRows = 6;
// Vectors of a tile: 6 x 4 accumulators fill 32 registers, 6 x 2 fill 16.
inline constexpr int kTileVectors = HWY_TARGET == HWY_AVX2 ? 2 : 4;

/// Elements of a padded row of n.
[[nodiscard]] constexpr int64_t padded(int64_t n) { return ceil_div(n, kLanes) * kLanes; }

/// What becomes of the sums of a product.
enum class Into {
  kScaled,    // c = sum scale
  kFolded,    // c = c + sum
  kContinued  // the chain goes on from c factors[row]
};

/// sum(r, i) = chain over ascending k of a(r, k) b(k, i), a(r, k) = a[r a_row + k a_step].
struct Product {
  const float* a;
  int64_t a_row, a_step;
  const float* b;
  int64_t b_step;
  float* c;
  int64_t c_row;
  int64_t steps;
  Into into;
  float scale = 1;
  const float* factors = nullptr;
};

/// `vectors` vectors of columns of `rows` rows; rows is a result of `tile_rows`.
void product(const Product& p, int64_t rows, int64_t vectors);

/// Rows of the next tile when `left` remain: few tiles, and none of one row after a full one.
[[nodiscard]] inline int64_t tile_rows(int64_t left) {
  constexpr std::array<int8_t, 12> kNext = {0, 1, 2, 3, 4, 3, 6, 4, 4, 6, 6, 4};
  return left >= 12 ? kTileRows : kNext[static_cast<size_t>(left)];
}

/// The fold of 32 lanes by xor 16, 8, 4, 2, 1, as the only block after +0.
HWY_INLINE float fold_lanes(std::array<V, kRowLanes / kLanes> lanes) {
  for (size_t half = lanes.size() / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] = hn::Add(lanes[i], lanes[i + half]);
  }
  const hn::Full128<float> d4;
  const auto halve = [](auto d, auto v) {
    const hn::Half<decltype(d)> h;
    return hn::Add(hn::LowerHalf(h, v), hn::UpperHalf(h, v));
  };
  const auto four = [&] {
    if constexpr (kLanes == 16) {
      return halve(hn::Half<D>(), halve(D(), lanes[0]));
    } else if constexpr (kLanes == 8) {
      return halve(D(), lanes[0]);
    } else {
      return lanes[0];
    }
  }();
  const auto two = hn::Add(four, hn::Shuffle1032(four));
  const auto one = hn::Add(two, hn::Shuffle2301(two));
  return hn::GetLane(hn::Add(hn::Zero(d4), one));
}

/// out[c][i] = x(first + i, head)[c], kKeyBlock floats a row; up to the next multiple of kLanes,
/// rows from `count` on repeat the last one.
void pack_transposed(Heads<const float> x, int64_t first, int64_t count, int64_t head, float* out);

/// Copies n floats and fills the rest of the padded row with +0.
HWY_INLINE void copy_padded(const float* x, int64_t n, float* out) {
  const D d;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::LoadU(d, x + i), d, out + i);
  if (i < n) std::fill(std::copy(x + i, x + n, out + i), out + padded(n), 0.0f);
}

/// Rows first .. first + count of one head, padded.
inline void pack_rows(Heads<const float> x, int64_t first, int64_t count, int64_t head,
                      float* out) {
  for (int64_t i = 0; i < count; ++i) {
    copy_padded(x.at(first + i, head), x.dim, out + i * padded(x.dim));
  }
}

/// Hands out parts of one block of memory, each aligned to a cache line.
class Arena {
 public:
  explicit Arena(float* data) : data_(data) {}
  float* take(int64_t floats) {
    float* out = data_;
    data_ += size(floats);
    return out;
  }
  static constexpr int64_t size(int64_t floats) { return ceil_div(floats, 16) * 16; }

 private:
  float* data_;
};

}  // namespace attn
}  // namespace rlreplay::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // per-target guard
