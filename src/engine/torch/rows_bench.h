#pragma once

#include <cstdint>
#include <functional>

/// Closures that run one stock float32 operation of rows on tensors that they own.
namespace rlreplay::aten {

/// `at::rms_norm`. Shapes: x [rows, n].
std::function<void()> rms_norm_bench(int64_t rows, int64_t n);

/// Its gradients (dx, dw) by autograd, from a graph that is kept.
std::function<void()> rms_norm_backward_bench(int64_t rows, int64_t n);

/// x cos + rotate_half(x) sin. Shapes: x [T, H, D].
std::function<void()> rotary_bench(int64_t tokens, int64_t heads, int64_t dim);

/// silu(gate) up. Shapes: [T, F].
std::function<void()> swiglu_bench(int64_t tokens, int64_t cols);

/// Its gradients: `at::silu_backward` and two products.
std::function<void()> swiglu_backward_bench(int64_t tokens, int64_t cols);

/// `index_add_` of rows by random ids. Shapes: dx [T, C], table [ids, C].
std::function<void()> embedding_backward_bench(int64_t tokens, int64_t cols, int64_t ids);

/// log_softmax and the labels' entries; without the entropy. Shapes: [T, V].
std::function<void()> log_prob_bench(int64_t rows, int64_t cols);

/// Its gradient, as cross entropy has it: nll_loss_backward, _log_softmax_backward_data.
std::function<void()> log_prob_backward_bench(int64_t rows, int64_t cols);

/// `at::_fused_adamw_`.
std::function<void()> adamw_bench(int64_t n);

/// `at::linalg_vector_norm` of float32.
std::function<void()> norm_bench(int64_t n);

}  // namespace rlreplay::aten
