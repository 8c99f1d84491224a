#pragma once

#include <vector>

#include "src/engine/torch/operators.h"
#include "tests/kernels/rows_support.h"

/// What the tests against libtorch share.
namespace rlreplay::kernels::test {

inline std::vector<float> normal_values(Random& random, int64_t n, double scale = 1) {
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = static_cast<float>(random.normal() * scale);
  return out;
}

template <class T>
aten::Array array(std::vector<int64_t> shape, const std::vector<T>& values) {
  return {std::move(shape), {values.begin(), values.end()}};
}

/// `want` is libtorch's float64, `stock` its float32.
inline void require_accurate(const std::vector<float>& got, const aten::Array& want,
                             const aten::Array& stock) {
  REQUIRE(got.size() == want.values.size());
  const double error = relative_l2(got, want.values);
  const double limit = allowed(relative_l2(stock.values, want.values));
  REQUIRE(error <= limit);
}

}  // namespace rlreplay::kernels::test
