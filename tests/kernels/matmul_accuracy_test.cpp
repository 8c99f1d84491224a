#include <catch2/catch.hpp>

#include "src/engine/torch/operators.h"
#include "tests/kernels/matmul_support.h"

using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;
namespace aten = rlreplay::aten;

namespace {

aten::Array array(const Guarded<float>& from) {
  const auto view = from.view();
  aten::Array out{{view.rows, view.cols}, {}};
  for (int64_t r = 0; r < view.rows; ++r) {
    for (int64_t c = 0; c < view.cols; ++c) out.values.push_back(view(r, c));
  }
  return out;
}

template <class T>
std::vector<double> values(const Guarded<T>& from, double unit = 1) {
  const auto view = from.view();
  std::vector<double> out;
  for (int64_t r = 0; r < view.rows; ++r) {
    for (int64_t c = 0; c < view.cols; ++c) out.push_back(static_cast<double>(view(r, c)) * unit);
  }
  return out;
}

struct Case {
  int64_t m, k, n, segments;
};

}  // namespace

TEST_CASE("matmul: y, dx and dw are as close to float64 as libtorch's float32") {
  constexpr int kScale = 40;
  for (const auto [M, K, N, T] :
       {Case{70, 896, 300, 1}, Case{33, 1216, 130, 8}, Case{600, 64, 40, 1}}) {
    Random random(41);
    Guarded<float> x(M, K), dy(M, N);
    Weight w(Inner::kColumns, {N}, K), wt(Inner::kRows, {N}, K);
    x.fill_normal(random);
    dy.fill_normal(random, 1e-3);
    w.parts[0].fill_normal(random, 0.05);
    wt.parts[0] = w.parts[0];
    std::vector<float> bias(static_cast<size_t>(N));
    for (float& b : bias) b = random.normal();
    aten::Array tbias{{N}, {bias.begin(), bias.end()}};
    const auto oracle = [&](aten::Precision precision) {
      return aten::linear(array(x), array(w.parts[0]), tbias, array(dy), precision);
    };
    const auto exact = oracle(aten::Precision::kFloat64);
    const auto torch = oracle(aten::Precision::kFloat32);

    auto& pool = *pools()[1];
    const auto& set = cpu_kernels();
    const DotOrder order = dot_order(K, T), back = dot_order(N, 1);
    const auto y = product(set, {x, w, order, &bias}, pool);
    const auto dx = product(set, {dy, wt, back}, pool);
    Guarded<int64_t> dw(N, K);
    dw.fill(0);
    std::vector<Range> leaves;
    append_token_leaves(0, M, 256, leaves);
    Rejected rejected;
    MatmulTokens op{dy.view(),
                    x.view(),
                    leaves,
                    {dw.view(), kScale, static_cast<int64_t>(leaves.size()), &rejected}};
    set.matmul_tokens(op, pool);
    REQUIRE_FALSE(rejected.any());

    const auto check = [](const std::vector<double>& got, const aten::Array& want,
                          const aten::Array& float32) {
      const double error = relative_l2(got, want.values);
      CAPTURE(error, relative_l2(float32.values, want.values));
      REQUIRE(error > 0);
      REQUIRE(error <= allowed(relative_l2(float32.values, want.values)));
    };
    CAPTURE(M, K, N, T);
    check(values(y), exact.y, torch.y);
    check(values(dx), exact.dx, torch.dx);
    check(values(dw, std::ldexp(1.0, -kScale)), exact.dw, torch.dw);
  }
}
