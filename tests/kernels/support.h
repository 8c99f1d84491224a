#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/kernels.h"
#include "tests/random.h"

/// What the kernel tests share: odd views with guards, comparisons of bits
/// and against float64.
namespace rlreplay::kernels::test {

using rlreplay::test::Random;

/// A matrix on memory of its own that begins at an odd element, has a gap after each row, and
/// guards that `intact` checks: the gaps and both ends keep their value.
template <class T>
class Guarded {
 public:
  Guarded(int64_t rows, int64_t cols, int64_t offset = 3, int64_t gap = 5)
      : rows_(rows),
        cols_(cols),
        stride_(cols + gap),
        offset_(offset),
        data_(static_cast<size_t>(offset + rows * (cols + gap) + 8), guard()) {}

  Matrix<T> view() { return {data_.data() + offset_, rows_, cols_, stride_}; }
  Matrix<const T> view() const { return {data_.data() + offset_, rows_, cols_, stride_}; }
  T& operator()(int64_t r, int64_t c) { return view()(r, c); }

  void fill(T value) {
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < cols_; ++c) (*this)(r, c) = value;
    }
  }
  void fill_normal(Random& random, double scale = 1) {
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < cols_; ++c) {
        (*this)(r, c) = static_cast<T>(random.normal() * scale);
      }
    }
  }

  /// The bytes of the rows, without the gaps.
  std::string bytes() const {
    std::string out;
    for (int64_t r = 0; r < rows_; ++r) {
      out.append(reinterpret_cast<const char*>(view().row(r)),
                 static_cast<size_t>(cols_) * sizeof(T));
    }
    return out;
  }
  bool intact() const {
    for (size_t i = 0; i < data_.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i) - offset_;
      const bool inside = at >= 0 && at < rows_ * stride_ && at % stride_ < cols_;
      const T want = guard();
      if (!inside && std::memcmp(&data_[i], &want, sizeof want) != 0) return false;
    }
    return true;
  }

 private:
  static T guard() {
    if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::quiet_NaN();
    return static_cast<T>(0x5a5a5a5a5a5a5a5aull);
  }
  int64_t rows_, cols_, stride_, offset_;
  std::vector<T> data_;
};

/// Numbers that are hard on kernels: both zeros, subnormals, tiny, huge, ties of bf16 and fp32.
inline float awkward(Random& random) {
  switch (random.below(8)) {
    case 0:
      return 0.0f;
    case 1:
      return -0.0f;
    case 2:
      return std::bit_cast<float>(static_cast<uint32_t>(random.below(0x800000)));
    case 3:
      return -std::bit_cast<float>(static_cast<uint32_t>(random.below(0x800000)));
    case 4:
      return random.normal() * 1e-30f;
    case 5:
      return random.normal() * 1e4f;
    default:
      return random.normal();
  }
}

/// |got - want|_2 / |want|_2, `want` in float64.
template <class Got, class Want>
double relative_l2(const Got& got, const Want& want) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    error += d * d;
    norm += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  return norm == 0 ? std::sqrt(error) : std::sqrt(error / norm);
}

/// The bound of a vector's error: twice libtorch's own error in fp32, at least 2^-22.
inline double allowed(double torch_error) { return std::max(2 * torch_error, 0x1p-22); }

}  // namespace rlreplay::kernels::test
