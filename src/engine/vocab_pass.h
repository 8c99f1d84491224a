#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/view.h"
#include "src/base/buffer.h"
#include "src/engine/gradients.h"
#include "src/engine/model.h"
#include "src/engine/runtime.h"

namespace rlreplay::engine {

/// How tokens are chosen.
struct SamplingConfig {
  float temperature = 1;  // 0: greedy
  int64_t top_k = 0;      // 0: all
  double top_p = 1;
  uint64_t seed = 0;
};

/// The precision in which logits are kept: bfloat16's where a run in it is imitated.
enum class Logits { kBinary32, kBfloat16 };

/// The vocabulary's part of the model for a few rows at a time: logits and what follows from them.
/// Call in this order: forward, then sample if wanted, score, backward if wanted.
class VocabPass {
 public:
  /// temperature 0 scores at 1.
  VocabPass(const Runtime& runtime, const Model& model, float temperature,
            Logits precision = Logits::kBinary32);

  /// Logits and their statistics for `rows` of hidden [T, C].
  void forward(kernels::Matrix<const float> hidden, std::span<const int64_t> rows);

  /// A token for every row.
  std::vector<int32_t> sample(std::span<const kernels::Draw> draws, const SamplingConfig& config);

  /// Log-probabilities of `labels` and entropies of the rows; valid until the next forward.
  void score(std::span<const int32_t> labels);
  std::span<float> log_probs() { return {log_prob_.data(), log_prob_.size()}; }
  std::span<float> entropy() { return {entropy_.data(), entropy_.size()}; }

  /// Adds the head's gradient, and writes the hidden rows' gradient to the same rows of dhidden;
  /// c, ce as in kernels::LogProbBackward. The logits are used up.
  void backward(std::span<const int64_t> rows, std::span<const int32_t> labels,
                std::span<const float> c, std::span<const float> ce,
                std::span<const kernels::Range> leaves, Gradients& gradients,
                kernels::Matrix<float> dhidden);

 private:
  kernels::Matrix<float> compact();
  kernels::Matrix<float> logits();
  void finish(const float* label_logits);

  const Runtime& run_;
  const Model& model_;
  float temperature_;
  Logits precision_;
  int64_t rows_ = 0;
  Buffer<float> hidden_, logits_, max_, label_, z_, e_, sum_, log_sum_, log_prob_, entropy_;
};

}  // namespace rlreplay::engine
