#include "src/engine/torch/linear_bench.h"

#include <ATen/ATen.h>

namespace rlreplay::aten {
namespace {

// out = a b; a or b may be a transposed view.
std::function<void()> product(at::Tensor a, at::Tensor b) {
  auto out = at::empty({a.size(0), b.size(1)});
  return [a = std::move(a), b = std::move(b), out]() mutable { at::mm_out(out, a, b); };
}

}  // namespace

std::function<void()> linear_forward_bench(int64_t m, int64_t k, int64_t n) {
  return product(at::randn({m, k}), at::randn({n, k}).t());
}

std::function<void()> linear_dx_bench(int64_t m, int64_t k, int64_t n) {
  return product(at::randn({m, n}), at::randn({n, k}));
}

std::function<void()> linear_dw_bench(int64_t m, int64_t k, int64_t n) {
  return product(at::randn({m, n}).t(), at::randn({m, k}));
}

}  // namespace rlreplay::aten
