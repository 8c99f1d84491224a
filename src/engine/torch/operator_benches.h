#pragma once

#include <cstdint>
#include <functional>
#include <vector>

/// Closures that run one stock float32 operator on tensors that they own.
namespace rlreplay::aten {

// Products: `at::mm_out`.

/// y = x w^T. Shapes: x [M, K], w [N, K], y [M, N].
[[nodiscard]] std::function<void()> linear_forward_bench(int64_t m, int64_t k, int64_t n);

/// dx = dy w. Shapes: dy [M, N], w [N, K], dx [M, K].
[[nodiscard]] std::function<void()> linear_dx_bench(int64_t m, int64_t k, int64_t n);

/// dw = dy^T x. Shapes: dy [M, N], x [M, K], dw [N, K].
[[nodiscard]] std::function<void()> linear_dw_bench(int64_t m, int64_t k, int64_t n);

// `scaled_dot_product_attention`. Grouped heads are given by `enable_gqa` or by repeated keys and
// values, whichever was faster in a trial.

/// The shapes of an attention: heads of `size` elements.
struct AttentionBench {
  std::vector<int64_t> lengths;  // samples, one call each
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t size = 64;
};

/// Causal attention of whole samples; q, k, v [1, heads, T, D] are views of [T, heads, D].
[[nodiscard]] std::function<void()> attention_forward_bench(const AttentionBench& shape);

/// Causal attention of whole samples, and its gradients for q, k and v.
[[nodiscard]] std::function<void()> attention_training_bench(const AttentionBench& shape);

/// One query each of `batch` samples that have `keys` keys, in one call.
[[nodiscard]] std::function<void()> attention_decode_bench(int64_t batch, int64_t keys,
                                                           int64_t heads, int64_t kv_heads,
                                                           int64_t size);

// Operations of rows.

/// `at::rms_norm`. Shapes: x [rows, n].
[[nodiscard]] std::function<void()> rms_norm_bench(int64_t rows, int64_t n);

/// Its gradients (dx, dw) by autograd, from a graph that is kept.
[[nodiscard]] std::function<void()> rms_norm_backward_bench(int64_t rows, int64_t n);

/// x cos + rotate_half(x) sin. Shapes: x [T, H, D].
[[nodiscard]] std::function<void()> rotary_bench(int64_t tokens, int64_t heads, int64_t dim);

/// silu(gate) up. Shapes: [T, F].
[[nodiscard]] std::function<void()> swiglu_bench(int64_t tokens, int64_t cols);

/// Its gradients: `at::silu_backward` and two products.
[[nodiscard]] std::function<void()> swiglu_backward_bench(int64_t tokens, int64_t cols);

/// `index_add_` of rows by random ids. Shapes: dx [T, C], table [ids, C].
[[nodiscard]] std::function<void()> embedding_backward_bench(int64_t tokens, int64_t cols,
                                                             int64_t ids);

/// log_softmax and the labels' entries; without the entropy. Shapes: [T, V].
[[nodiscard]] std::function<void()> log_prob_bench(int64_t rows, int64_t cols);

/// Its gradient, as cross entropy has it: nll_loss_backward, _log_softmax_backward_data.
[[nodiscard]] std::function<void()> log_prob_backward_bench(int64_t rows, int64_t cols);

/// `at::_fused_adamw_`.
[[nodiscard]] std::function<void()> adamw_bench(int64_t n);

/// `at::linalg_vector_norm` of float32.
[[nodiscard]] std::function<void()> norm_bench(int64_t n);

}  // namespace rlreplay::aten
