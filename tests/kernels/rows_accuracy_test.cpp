#include "kernels/token_sum.h"
#include "src/engine/torch/operators.h"
#include "tests/kernels/oracle.h"

using namespace rlreplay;
using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;
using aten::Precision;

namespace {

/// dw in binary32, after a sum at scale 46.
std::vector<float> run_rms_norm_backward(const Heads<const float>& x, const float* w,
                                         const float* r, const Heads<const float>& dy,
                                         Heads<float> dx) {
  std::vector<int64_t> sum(static_cast<size_t>(x.dim));
  std::vector<float> dw(sum.size());
  Rejected rejected;
  cpu_kernels().rms_norm_backward(
      {.x = x,
       .w = w,
       .r = r,
       .dy = dy,
       .residual = {},
       .dx = dx,
       .dw = {{sum.data(), 1, x.dim}, 40, x.tokens * x.heads, &rejected}},
      *pools()[1]);
  REQUIRE_FALSE(rejected.any());
  cpu_kernels().token_gradient({sum, 40, dw}, *pools()[0]);
  return dw;
}

}  // namespace

TEST_CASE("rms_norm and its gradients against float64") {
  Random random(81);
  for (const auto& shape :
       {std::array<int64_t, 3>{64, 1, 896}, {64, 14, 64}, {5, 1, 4096}, {33, 3, 100}}) {
    const int64_t tokens = shape[0], heads = shape[1], dim = shape[2];
    for (const double size : {1e-4, 1.0, 300.0}) {
      CAPTURE(tokens, heads, dim, size);
      const int64_t rows = tokens * heads;
      auto x = normal_values(random, rows * dim, size), w = normal_values(random, dim);
      const auto dy = normal_values(random, rows * dim);
      const auto oracle = [&](Precision precision) {
        return aten::rms_norm(array({rows, dim}, x), array({dim}, w), 1e-6, array({rows, dim}, dy),
                              precision);
      };
      const auto want = oracle(Precision::kFloat64), stock = oracle(Precision::kFloat32);
      std::vector<float> y(x.size()), dx(x.size()), r(static_cast<size_t>(rows));
      const Heads<const float> xs(x.data(), tokens, heads, dim), gs(dy.data(), tokens, heads, dim);
      cpu_kernels().rms_norm(
          {xs, w.data(), 1e-6f, Heads<float>(y.data(), tokens, heads, dim), r.data()}, *pools()[1]);
      const auto dw = run_rms_norm_backward(xs, w.data(), r.data(), gs,
                                            Heads<float>(dx.data(), tokens, heads, dim));
      require_accurate(y, want.y, stock.y);
      require_accurate(dx, want.dx, stock.dx);
      require_accurate(dw, want.dw, stock.dw);
    }
  }
}

TEST_CASE("rotary and its gradient against float64") {
  Random random(82);
  const int64_t tokens = 50, heads = 4, dim = 48;
  const auto x = normal_values(random, tokens * heads * dim);
  const auto dy = normal_values(random, tokens * heads * dim);
  std::vector<float> cos, sin;
  std::vector<int32_t> positions;
  for (int64_t i = 0; i < tokens * dim / 2; ++i) {
    const double angle = 6.3 * random.uniform();
    cos.push_back(static_cast<float>(std::cos(angle)));
    sin.push_back(static_cast<float>(std::sin(angle)));
  }
  for (int64_t t = 0; t < tokens; ++t) positions.push_back(static_cast<int32_t>(t));
  const auto oracle = [&](Precision precision) {
    return aten::rotary(array({tokens, heads, dim}, x), array({tokens, dim / 2}, cos),
                        array({tokens, dim / 2}, sin), array({tokens, heads, dim}, dy), precision);
  };
  const auto want = oracle(Precision::kFloat64), stock = oracle(Precision::kFloat32);
  std::vector<float> y(x.size()), dx(x.size());
  const Matrix<const float> c(cos.data(), tokens, dim / 2), s(sin.data(), tokens, dim / 2);
  const auto heads_view = [&](auto* data) {
    return Heads<std::remove_pointer_t<decltype(data)>>(data, tokens, heads, dim);
  };
  cpu_kernels().rotary({heads_view(x.data()), positions.data(), c, s, false, heads_view(y.data())},
                       *pools()[0]);
  cpu_kernels().rotary({heads_view(dy.data()), positions.data(), c, s, true, heads_view(dx.data())},
                       *pools()[0]);
  require_accurate(y, want.y, stock.y);
  require_accurate(dx, want.dx, stock.dx);
}

TEST_CASE("swiglu and its gradients against float64") {
  Random random(83);
  for (const double size : {1e-3, 1.0, 10.0, 40.0}) {
    CAPTURE(size);
    const int64_t tokens = 20, cols = 643;
    const auto gate = normal_values(random, tokens * cols, size);
    const auto up = normal_values(random, tokens * cols),
               dout = normal_values(random, tokens * cols);
    const auto oracle = [&](Precision precision) {
      return aten::swiglu(array({tokens, cols}, gate), array({tokens, cols}, up),
                          array({tokens, cols}, dout), precision);
    };
    const auto want = oracle(Precision::kFloat64), stock = oracle(Precision::kFloat32);
    std::vector<float> out(gate.size()), dgate(gate.size()), dup(gate.size());
    const auto matrix = [&](auto& v) { return Matrix(v.data(), tokens, cols); };
    cpu_kernels().swiglu({matrix(gate), matrix(up), matrix(out)}, *pools()[0]);
    cpu_kernels().swiglu_backward(
        {matrix(gate), matrix(up), matrix(dout), matrix(dgate), matrix(dup)}, *pools()[0]);
    require_accurate(out, want.out, stock.out);
    require_accurate(dgate, want.dgate, stock.dgate);
    require_accurate(dup, want.dup, stock.dup);
  }
}

TEST_CASE("sums over tokens against float64: biases and embedding rows") {
  Random random(84);
  const int64_t tokens = 400, cols = 100, ids = 7;
  const auto dy = normal_values(random, tokens * cols, 1e-3);
  std::vector<int32_t> rows;
  std::vector<double> bias(cols), table(ids * cols);
  for (int64_t t = 0; t < tokens; ++t) {
    rows.push_back(static_cast<int32_t>(random.below(ids)));
    for (int64_t i = 0; i < cols; ++i) {
      const auto value = static_cast<double>(dy[static_cast<size_t>(t * cols + i)]);
      bias[static_cast<size_t>(i)] += value;
      table[static_cast<size_t>(rows.back() * cols + i)] += value;
    }
  }
  std::vector<int64_t> bias_sum(bias.size()), table_sum(table.size());
  Rejected rejected;
  const Matrix<const float> g(dy.data(), tokens, cols);
  cpu_kernels().bias_tokens({g, nullptr, {{bias_sum.data(), 1, cols}, 46, tokens, &rejected}},
                            *pools()[1]);
  cpu_kernels().embedding_tokens(
      {g, rows.data(), 0, {{table_sum.data(), ids, cols}, 46, tokens, &rejected}}, *pools()[1]);
  std::vector<float> dbias(bias.size()), dtable(table.size());
  cpu_kernels().token_gradient({bias_sum, 46, dbias}, *pools()[0]);
  cpu_kernels().token_gradient({table_sum, 46, dtable}, *pools()[0]);
  REQUIRE_FALSE(rejected.any());
  REQUIRE(relative_l2(dbias, bias) <= 0x1p-24);
  REQUIRE(relative_l2(dtable, table) <= 0x1p-24);
}
