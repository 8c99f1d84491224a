#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "src/base/sample.h"
#include "src/engine/vocab_pass.h"

namespace rlreplay::engine {

/// Rows of a batch whose next token is scored, in ascending order, and their leaves (as ranges of
/// this list). Rows that no response token follows are left out: they would contribute zeros.
struct ScoredRows {
  std::vector<int64_t> rows;       // of the batch
  std::vector<int32_t> labels;     // the token that follows
  std::vector<uint64_t> samples;   // of that token
  std::vector<int32_t> positions;  // its place in the sample
  std::vector<Nucleus> nuclei;     // of each row, or none where no sample has them
  std::vector<kernels::Range> leaves;

  int64_t size() const { return static_cast<int64_t>(rows.size()); }
  /// The coordinates of the tokens that are scored, from row `first` of the list on.
  RowCoordinates coordinates(int64_t first) const {
    return {samples.data() + first, positions.data() + first};
  }
};

/// Sets c = -dL/dlog_prob and ce = entropy_coef w of scored rows [begin, end), given the scores of
/// all rows up to end, or of all rows. Where no row is scored, it is called once for none: other
/// ranks may score the rest of the same samples.
using LossGradient = std::function<void(kernels::Range rows, const Scores& scores,
                                        std::span<float> c, std::span<float> ce)>;

/// Rows whose logits are held at once: enough to keep the products busy, and whole leaves.
inline constexpr int64_t kHeadRows = 256;

/// Scores of `scored`, given the final norm's output. Logits exist for a few leaves at a time.
/// Shapes: hidden [T, C].
[[nodiscard]] Scores head_forward(const Runtime& runtime, const Model& model,
                                  kernels::Matrix<const float> hidden, const ScoredRows& scored,
                                  float temperature, Logits precision = Logits::kBinary32);

/// How much of a batch is scored before the first gradient is asked for.
enum class Scored { kUpToRow, kAll };

/// Scores and the backward: dhidden [T, C] (rows not scored get +0) and the head's gradient.
/// Scored::kAll computes the logits of a batch of several groups of leaves twice.
[[nodiscard]] Scores head_backward(const Runtime& runtime, const Model& model,
                                   kernels::Matrix<const float> hidden, const ScoredRows& scored,
                                   float temperature, Scored before,
                                   const LossGradient& loss_gradient, Gradients& gradients,
                                   kernels::Matrix<float> dhidden);

}  // namespace rlreplay::engine
