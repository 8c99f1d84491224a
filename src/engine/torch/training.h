#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/engine/step.h"
#include "src/engine/torch/flat_state.h"
#include "src/engine/torch/scores.h"

/// For the files of this folder alone.
namespace rlreplay::aten {

/// Appends the scores of every sample.
void append_scores(std::span<const Sample> samples, const RowScores& scores,
                   std::vector<Scores>& out);

/// What a step reads and changes.
struct Training {
  const engine::Runtime& runtime;
  const ParameterTable& parameters;
  Network& network;
  FlatState& state;
  int64_t& steps;
};

/// engine::run_step by autograd, clip_grad_norm_'s formula and fused AdamW. In float32 it shows the
/// sink what both kernel sets have: log-probabilities and entropies, losses, gradients (as floats),
/// the norm, the clip scale, moments and weights.
[[nodiscard]] engine::StepResult train_step(const Training& training,
                                            std::span<const Sample> samples,
                                            std::span<const SampleTargets> targets,
                                            const engine::StepConfig& config);

}  // namespace rlreplay::aten
