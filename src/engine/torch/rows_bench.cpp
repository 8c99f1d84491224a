#include "src/engine/torch/rows_bench.h"

#include <ATen/ATen.h>

namespace rlreplay::aten {

std::function<void()> rms_norm_bench(int64_t rows, int64_t n) {
  return [x = at::randn({rows, n}), w = at::randn({n}), n, y = at::Tensor()]() mutable {
    y = at::rms_norm(x, {n}, w, 1e-6);
  };
}

std::function<void()> rms_norm_backward_bench(int64_t rows, int64_t n) {
  auto x = at::randn({rows, n}).requires_grad_(), w = at::randn({n}).requires_grad_();
  auto y = at::rms_norm(x, {n}, w, 1e-6);
  return [x, w, y, dy = at::randn({rows, n})] {
    x.mutable_grad().reset();
    w.mutable_grad().reset();
    y.backward(dy, /*retain_graph=*/true);
  };
}

std::function<void()> rotary_bench(int64_t tokens, int64_t heads, int64_t dim) {
  return [x = at::randn({tokens, heads, dim}), c = at::randn({tokens, 1, dim}),
          s = at::randn({tokens, 1, dim}), y = at::Tensor()]() mutable {
    const auto halves = x.chunk(2, 2);
    y = x * c + at::cat({-halves[1], halves[0]}, 2) * s;
  };
}

std::function<void()> swiglu_bench(int64_t tokens, int64_t cols) {
  return [gate = at::randn({tokens, cols}), up = at::randn({tokens, cols}),
          y = at::Tensor()]() mutable { y = at::silu(gate) * up; };
}

std::function<void()> swiglu_backward_bench(int64_t tokens, int64_t cols) {
  auto gate = at::randn({tokens, cols}), up = at::randn({tokens, cols});
  return [gate, up, silu = at::silu(gate), dout = at::randn({tokens, cols}), dgate = at::Tensor(),
          dup = at::Tensor()]() mutable {
    dup = dout * silu;
    dgate = at::silu_backward(dout * up, gate);
  };
}

std::function<void()> embedding_backward_bench(int64_t tokens, int64_t cols, int64_t ids) {
  return [dx = at::randn({tokens, cols}), at = at::randint(ids, {tokens}, at::kLong),
          table = at::zeros({ids, cols})]() mutable { table.index_add_(0, at, dx); };
}

std::function<void()> log_prob_bench(int64_t rows, int64_t cols) {
  return [logits = at::randn({rows, cols}), labels = at::randint(cols, {rows, 1}, at::kLong),
          taken = at::Tensor()]() mutable { taken = at::log_softmax(logits, 1).gather(1, labels); };
}

std::function<void()> log_prob_backward_bench(int64_t rows, int64_t cols) {
  auto all = at::log_softmax(at::randn({rows, cols}), 1);
  auto labels = at::randint(cols, {rows}, at::kLong);
  return [all, labels, c = at::randn({rows}), d = at::Tensor()]() mutable {
    const auto dall =
        at::nll_loss_backward(c, all, labels, {}, at::Reduction::None, -100, at::zeros({}));
    d = at::_log_softmax_backward_data(dall, all, 1, at::kFloat);
  };
}

std::function<void()> adamw_bench(int64_t n) {
  return [w = at::randn({n}), g = at::randn({n}), m = at::zeros({n}), v = at::zeros({n}),
          step = at::scalar_tensor(1.0)] {
    at::_fused_adamw_({w}, {g}, {m}, {v}, {}, {step}, 1e-6, 0.9, 0.999, 0.1, 1e-8, false, false);
  };
}

std::function<void()> norm_bench(int64_t n) {
  return [g = at::randn({n}), out = at::Tensor()]() mutable { out = at::linalg_vector_norm(g); };
}

}  // namespace rlreplay::aten
