#pragma once

#include <span>
#include <vector>

#include "src/engine/global_batch.h"
#include "src/engine/step.h"

namespace rlreplay::engine {

/// Response tokens of a rank's samples that it scores, in the order of its rows.
struct ScoredTokens {
  std::vector<size_t> sample, token;
  std::vector<uint64_t> ids;
  std::vector<int32_t> positions;

  size_t size() const { return sample.size(); }
};

/// The tokens of samples [first, first + count) that context-parallel rank `cp` of `size` scores.
[[nodiscard]] ScoredTokens scored_tokens(std::span<const Sample> samples, size_t first,
                                         size_t count, int64_t leaf, int cp, int size);

/// The objective of a micro-batch's scored rows, shown to the sink and kept in `out`.
class MicroBatchObjective {
 public:
  /// Samples [first, first + count) of the batch. What it is given must outlive it.
  MicroBatchObjective(const ModelContext& context, const StepConfig& config, const StepBatch& batch,
                      size_t first, size_t count, StepResult& out);

  /// Called by head_backward, as its LossGradient, for each group of leaves between its forward and
  /// its backward. Here is where the objective runs.
  void loss_gradient(kernels::Range rows, const Scores& scores, std::span<float> c,
                     std::span<float> ce);

  void keep_scores(const Scores& all);

 private:
  void compute(size_t begin, size_t n, const Scores& scores);
  void compute_whole(const Scores& scores);
  TokenInput input(size_t row, float log_prob, float entropy) const;
  void keep_terms(size_t begin, std::span<const TokenTerms> terms);

  const ModelContext& context_;
  const StepConfig& config_;
  const ObjectiveConfig& objective_;
  const StepBatch& batch_;
  const size_t first_, count_;
  const ScoredTokens tokens_;  // of each scored row
  StepResult& out_;
};

/// Gives every context-parallel rank the scores and terms of all its samples' tokens.
void gather_tokens(const Runtime& runtime, std::span<const Sample> samples, int64_t leaf,
                   StepResult& result);

}  // namespace rlreplay::engine
