#pragma once

#include <cstdint>
#include <optional>
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

/// The ids that a row's log-probability is taken over, its label besides; none: all.
using Nucleus = std::optional<std::span<const int32_t>>;

/// The precision in which logits are kept: bfloat16's where a run in it is imitated.
enum class Logits { kBinary32, kBfloat16 };

/// The vocabulary's part of the model for a few rows at a time: logits and what follows from them.
/// To draw tokens (rollout.cpp): forward, sum_exponentials, first_not_finite, sample, then score of
/// what was drawn. Of tokens that are there (head.cpp): forward, score, in training backward.
class VocabPass {
 public:
  /// temperature 0 scores at 1.
  VocabPass(const Runtime& runtime, const Model& model, float temperature,
            Logits precision = Logits::kBinary32);

  /// Logits and their statistics for `rows` of hidden [T, C].
  void forward(kernels::Matrix<const float> hidden, std::span<const int64_t> rows);

  /// Computes of every row the sum of exponentials and the entropy, which `first_not_finite` and
  /// `sample` read, with the largest logit in the place of the label that nobody has drawn yet.
  void sum_exponentials() { finish(max_.data()); }

  /// The first row with a logit, or a sum of exponentials, that is not finite; -1 if there is none.
  int64_t first_not_finite() const;

  /// A token for every row; their logits must be finite.
  std::vector<int32_t> sample(std::span<const kernels::Draw> draws, const SamplingConfig& config);

  /// Log-probabilities of `labels` and entropies of the rows; valid until the next forward. In a
  /// row with a nucleus (`nuclei`: of every row, or none) the other ids' logits count as the lowest
  /// number; the entropy is that of all ids.
  void score(std::span<const int32_t> labels, std::span<const Nucleus> nuclei = {});
  std::span<float> log_probs() { return log_prob_; }
  std::span<float> entropy() { return entropy_; }

  /// Adds the head's gradient, and writes the hidden rows' gradient to the same rows of dhidden;
  /// c, ce as in kernels::LogProbBackward. The logits are used up.
  void backward(std::span<const int64_t> rows, std::span<const int32_t> ids_of_rows,
                std::span<const float> c, std::span<const float> ce,
                std::span<const kernels::Range> leaves, Gradients& gradients,
                kernels::Matrix<float> dhidden);

 private:
  kernels::Matrix<float> compact();
  kernels::Matrix<float> logits();  // of the rank's part of the vocabulary
  int64_t ids() const { return model_.shard().vocab.size(); }
  /// Maximum and sums by segment of the whole vocabulary, of rows that may lack ids.
  void statistics(kernels::Matrix<float> logits, float temperature, Buffer<float>& max,
                  Buffer<float>& z, Buffer<float>& e);
  /// The label's logit of each row, from the rank that has it.
  void label_logits(kernels::Matrix<const float> logits, std::span<const int32_t> labels,
                    Buffer<float>& out);
  /// Labels as columns of the rank's logits; outside of them where another rank has the id.
  std::vector<int32_t> columns(std::span<const int32_t> labels) const;
  void finish(const float* label_logits);
  void restrict(std::span<const int32_t> labels, std::span<const Nucleus> nuclei);
  void restricted_backward(std::span<const int32_t> labels, std::span<const float> c);

  /// The rows that have a nucleus, and what is theirs: all as of the rows themselves.
  struct Restricted {
    std::vector<int64_t> rows;
    Buffer<float> logits, max, label, z, e, sum, log_sum, log_prob, entropy;
  };

  const Runtime& runtime_;
  const Model& model_;
  float temperature_;
  Logits precision_;
  int64_t rows_ = 0;
  Buffer<float> hidden_, logits_, max_, label_, z_, e_, sum_, log_sum_, log_prob_, entropy_;
  Restricted restricted_;
};

}  // namespace rlreplay::engine
