#include <memory>
#include <utility>

#include "bench/bench.h"
#include "src/engine/torch/operator_benches.h"

namespace rlreplay::bench {
namespace {

using kernels::Matrix;

struct Shape {
  int64_t m, k, n;
};

constexpr Shape kShapes[] = {{512, 896, 896},    {512, 896, 4864}, {512, 4864, 896},
                             {2048, 2048, 2048}, {64, 896, 896},   {64, 896, 4864},
                             {8, 896, 4864},     {1, 896, 4864}};

// The MLP's intermediate axis is the one that tensor parallelism cuts in these shapes.
int64_t segments(int64_t axis) { return axis == 4864 ? 8 : 1; }

// y = x w for a packed weight [n, k] (forward) or [k, n] (backward), packed once, as in a step.
struct Product {
  Product(Shape s, kernels::Inner inner, const Context& context)
      : x(numbers(s.m * s.k, 1)),
        y(static_cast<size_t>(s.m * s.n)),
        order(kernels::dot_order(s.k, segments(s.k))) {
    const auto w = numbers(s.n * s.k, 2);
    const bool columns = inner == kernels::Inner::kColumns;
    const Matrix<const float> part(w.data(), columns ? s.n : s.k, columns ? s.k : s.n);
    context.kernels.pack_weight({{&part, 1}, inner}, packed, context.pool);
    op.x = {x.data(), s.m, s.k};
    op.w = &packed;
    op.order = &order;
    op.y = {y.data(), s.m, s.n};
  }

  Buffer<float> x, y;
  kernels::PackedWeight packed;
  kernels::DotOrder order;
  kernels::Matmul op;
};

// dw [n, k] = or += dy^T x, into int64, in leaves of 256 tokens.
struct WeightGradient {
  WeightGradient(Shape s, bool accumulate)
      : dy(numbers(s.m * s.n, 1)), x(numbers(s.m * s.k, 2)), sum(static_cast<size_t>(s.n * s.k)) {
    std::fill_n(sum.data(), sum.size(), 0);
    kernels::append_token_leaves(0, s.m, 256, leaves);
    op.dy = {dy.data(), s.m, s.n};
    op.x = {x.data(), s.m, s.k};
    op.leaves = leaves;
    op.dw = {{sum.data(), s.n, s.k}, 40, static_cast<int64_t>(leaves.size()), &rejected};
    op.accumulate = accumulate;
  }

  Buffer<float> dy, x;
  Buffer<int64_t> sum;
  std::vector<kernels::Range> leaves;
  kernels::Rejected rejected;
  kernels::MatmulTokens op;
};

template <class Data, class Run>
std::function<void()> closure(std::shared_ptr<Data> data, Run run) {
  return [data, run] { run(*data); };
}

std::function<void()> product(Shape s, kernels::Inner inner, const Context& context) {
  if (!context.kernels.matmul || !context.kernels.pack_weight) return {};
  return closure(std::make_shared<Product>(s, inner, context),
                 [&context](Product& p) { context.kernels.matmul(p.op, context.pool); });
}

std::function<void()> weight_gradient(Shape s, bool accumulate, const Context& context) {
  if (!context.kernels.matmul_tokens) return {};
  return closure(std::make_shared<WeightGradient>(s, accumulate), [&context](WeightGradient& g) {
    context.kernels.matmul_tokens(g.op, context.pool);
  });
}

}  // namespace

void add_gemm(std::vector<Item>& items) {
  for (const Shape s : kShapes) {
    const std::string name = "gemm M=" + std::to_string(s.m) + " K=" + std::to_string(s.k) +
                             " N=" + std::to_string(s.n) + " ";
    // One row reads every weight for one multiplication each: memory is what it costs.
    const auto multiplications = static_cast<double>(s.m * s.n * s.k);
    const Unit unit = s.m == 1 ? Unit::kGbytes : Unit::kGflops;
    const double work = multiplications * (s.m == 1 ? sizeof(float) : 2);
    items.push_back({name + "forward", unit, work, [s](const Context& context) {
                       return Sides{product(s, kernels::Inner::kColumns, context),
                                    aten::linear_forward_bench(s.m, s.k, s.n)};
                     }});
    items.push_back({name + "backward dx", unit, work, [s](const Context& context) {
                       return Sides{product({s.m, s.n, s.k}, kernels::Inner::kRows, context),
                                    aten::linear_dx_bench(s.m, s.k, s.n)};
                     }});
    items.push_back(
        {name + "backward dw", Unit::kGflops, multiplications * 2, [s](const Context& context) {
           return Sides{weight_gradient(s, false, context), aten::linear_dw_bench(s.m, s.k, s.n)};
         }});
    // Of every micro-batch but the first; libtorch has no such sum to hold it against.
    items.push_back(
        {name + "backward dw +=", Unit::kGflops, multiplications * 2, [s](const Context& context) {
           return Sides{weight_gradient(s, true, context), {}};
         }});
  }
}

}  // namespace rlreplay::bench
