#pragma once

#include <cstdint>
#include <functional>

/// Closures that run one stock float32 product (`at::mm_out`) on tensors that they own.
namespace rlreplay::aten {

/// y = x w^T. Shapes: x [M, K], w [N, K], y [M, N].
std::function<void()> linear_forward_bench(int64_t m, int64_t k, int64_t n);

/// dx = dy w. Shapes: dy [M, N], w [N, K], dx [M, K].
std::function<void()> linear_dx_bench(int64_t m, int64_t k, int64_t n);

/// dw = dy^T x. Shapes: dy [M, N], x [M, K], dw [N, K].
std::function<void()> linear_dw_bench(int64_t m, int64_t k, int64_t n);

}  // namespace rlreplay::aten
