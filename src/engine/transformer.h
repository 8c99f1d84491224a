#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/engine/head.h"
#include "src/engine/layer.h"
#include "src/engine/sample.h"

namespace rlreplay::engine {

/// The output of the final norm of every row, caches extended. Shapes: hidden [T, C].
void transformer_forward(const Runtime& runtime, const Model& model, const RowBatch& batch,
                         const RotaryView& rotary, std::span<KvCache* const> caches,
                         Buffer<float>& hidden);

/// The rows of a batch of whole samples that a response token follows. `samples` are the batch's
/// chunks in order.
ScoredRows scored_rows(std::span<const Sample* const> samples, const RowBatch& batch, int64_t leaf);

/// Log-probabilities and entropies of the response tokens of `samples`, one after the other. Emits
/// nothing: it is no part of a step.
Scores score(const Runtime& runtime, const Model& model, const RotaryView& rotary,
             std::span<const Sample* const> samples, float temperature);

struct TrainOptions {
  float temperature = 1;
  int64_t leaf = kernels::kTokenLeaf;  // C, tokens of a leaf
  bool recompute = false;  // keep a layer's input only, run its forward again in the backward
};

/// Forward and backward of a micro-batch of whole samples: adds to `gradients`, returns the scores.
Scores train_micro_batch(const Runtime& runtime, const Model& model, const RotaryView& rotary,
                         std::span<const Sample* const> samples, const TrainOptions& options,
                         const LossGradient& loss_gradient, Gradients& gradients);

}  // namespace rlreplay::engine
