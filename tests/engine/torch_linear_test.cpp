#include <catch2/catch.hpp>

#include "src/base/error.h"
#include "src/engine/torch/operators.h"
#include "tests/kernels/support.h"

using namespace rlreplay::aten;
using rlreplay::kernels::test::Random;
using rlreplay::kernels::test::relative_l2;

namespace {

Array normal(Random& random, std::vector<int64_t> shape) {
  Array out{std::move(shape), {}};
  int64_t n = 1;
  for (const int64_t d : out.shape) n *= d;
  for (int64_t i = 0; i < n; ++i) out.values.push_back(random.normal());
  return out;
}

// out[i, j] = sum over k of a(i, k) b(k, j)
template <class A, class B>
std::vector<double> product(int64_t rows, int64_t inner, int64_t cols, A a, B b) {
  std::vector<double> out;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < inner; ++k) sum += a(i, k) * b(k, j);
      out.push_back(sum);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("libtorch's linear and its gradients are those of plain loops in float64") {
  constexpr int64_t M = 5, K = 37, N = 11;
  Random random(1);
  const Array x = normal(random, {M, K}), w = normal(random, {N, K});
  const Array bias = normal(random, {N}), dy = normal(random, {M, N});
  const auto at = [](const Array& a, int64_t i, int64_t j) {
    return a.values[static_cast<size_t>(i * a.shape[1] + j)];
  };
  auto y = product(
      M, K, N, [&](auto i, auto k) { return at(x, i, k); },
      [&](auto k, auto j) { return at(w, j, k); });
  for (size_t i = 0; i < y.size(); ++i) y[i] += bias.values[i % N];
  const auto dx = product(
      M, N, K, [&](auto i, auto k) { return at(dy, i, k); },
      [&](auto k, auto j) { return at(w, k, j); });
  const auto dw = product(
      N, M, K, [&](auto i, auto k) { return at(dy, k, i); },
      [&](auto k, auto j) { return at(x, k, j); });
  const auto dbias = product(
      1, M, N, [](auto, auto) { return 1.0; }, [&](auto k, auto j) { return at(dy, k, j); });

  const auto near = [&](const LinearResult& got, double low, double high) {
    for (const double error : {relative_l2(got.y.values, y), relative_l2(got.dx.values, dx),
                               relative_l2(got.dw.values, dw)}) {
      REQUIRE(error >= low);
      REQUIRE(error <= high);
    }
    REQUIRE(relative_l2(got.dbias.values, dbias) <= high);
  };
  const auto exact = linear(x, w, bias, dy, Precision::kFloat64);
  near(exact, 0, 1e-15);
  REQUIRE(exact.dw.shape == std::vector<int64_t>{N, K});
  near(linear(x, w, bias, dy, Precision::kFloat32), 1e-9, 1e-6);
  REQUIRE(linear(x, w, {}, dy, Precision::kFloat64).dbias.values.empty());
}

TEST_CASE("an array whose shape does not hold its values is refused") {
  const Array good{{1, 1}, {1.0}}, bad{{1, 2}, {1.0}};
  REQUIRE_THROWS_AS(linear(good, bad, {}, good, Precision::kFloat64), rlreplay::Error);
}
