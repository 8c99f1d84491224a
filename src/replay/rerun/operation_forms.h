#pragma once

#include "src/replay/rerun/operation.h"

/// The forms of operations, each by kernels and in binary64 (OperationForm).
namespace rlreplay::replay {

/// Order: ascending, in binary64; every product of two binary32 numbers is exact.
[[nodiscard]] inline double dot64(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t k = 0; k < n; ++k) sum += static_cast<double>(a[k]) * b[k];
  return sum;
}

// operation_products.cpp: x w^T (+ bias) (+ residual), and dy w of one weight or of several.
void compute_product(const Operation& op, const engine::Runtime& runtime,
                     kernels::Matrix<float> out);
void product64(const Operation& op, int64_t row, std::span<double> out);
void compute_product_backward(const Operation& op, const engine::Runtime& runtime,
                              kernels::Matrix<float> out);
void product_backward64(const Operation& op, int64_t row, std::span<double> out);

// operation_rows.cpp: what takes a row, or a head of it, alone.
void compute_embedding(const Operation& op, const engine::Runtime& runtime,
                       kernels::Matrix<float> out);
void embedding64(const Operation& op, int64_t row, std::span<double> out);
void compute_norm(const Operation& op, const engine::Runtime& runtime, kernels::Matrix<float> out);
void norm64(const Operation& op, int64_t row, std::span<double> out);
void compute_norm_backward(const Operation& op, const engine::Runtime& runtime,
                           kernels::Matrix<float> out);
void norm_backward64(const Operation& op, int64_t row, std::span<double> out);
void compute_rotary(const Operation& op, const engine::Runtime& runtime,
                    kernels::Matrix<float> out);
void rotary64(const Operation& op, int64_t row, std::span<double> out);
void compute_swiglu(const Operation& op, const engine::Runtime& runtime,
                    kernels::Matrix<float> out);
void swiglu64(const Operation& op, int64_t row, std::span<double> out);
void compute_swiglu_backward(const Operation& op, const engine::Runtime& runtime,
                             kernels::Matrix<float> out);
void swiglu_backward64(const Operation& op, int64_t row, std::span<double> out);

// operation_attention.cpp: softmax(q k^T / sqrt(D)) v over the sample up to the row, and back.
void compute_attention(const Operation& op, const engine::Runtime& runtime,
                       kernels::Matrix<float> out);
void attention64(const Operation& op, int64_t row, std::span<double> out);
void compute_attention_backward(const Operation& op, const engine::Runtime& runtime,
                                kernels::Matrix<float> out);
void attention_backward64(const Operation& op, int64_t row, std::span<double> out);

// operation_scores.cpp: the head, from hidden rows to log-probabilities, and back.
void compute_scores(const Operation& op, const engine::Runtime& runtime,
                    kernels::Matrix<float> out);
void scores64(const Operation& op, int64_t row, std::span<double> out);
void compute_scores_backward(const Operation& op, const engine::Runtime& runtime,
                             kernels::Matrix<float> out);
void scores_backward64(const Operation& op, int64_t row, std::span<double> out);

}  // namespace rlreplay::replay
