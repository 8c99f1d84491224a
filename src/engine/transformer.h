#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/sample.h"
#include "src/engine/head.h"
#include "src/engine/layer.h"

namespace rlreplay::engine {

/// The output of the final norm of every row, caches extended. Shapes: hidden [T, C].
void transformer_forward(const ModelContext& context, const RowBatch& batch,
                         std::span<KvCache* const> caches, Buffer<float>& hidden);

/// The rows of a batch of whole samples that a response token follows. `samples` are the batch's
/// chunks in order.
ScoredRows rows_to_score(std::span<const Sample* const> samples, const RowBatch& batch,
                         int64_t leaf);

/// The forward of whole samples as a step does it, with its events.
Scores score_samples(const ModelContext& context, std::span<const Sample* const> samples,
                     float temperature);

/// Log-probabilities and entropies of the response tokens of `samples`, one after the other. Emits
/// nothing: it is no part of a step. Errors: as check_sample; kCorrupt for one that is not finite
/// and whose token is not masked.
Scores score(const ModelContext& context, std::span<const Sample* const> samples,
             float temperature);

struct TrainOptions {
  float temperature = 1;
  int64_t leaf = kernels::kTokenLeaf;  // tokens of a leaf
  bool recompute = false;  // keep a layer's input only, run its forward again in the backward
  Scored scored = Scored::kUpToRow;  // what a loss's gradient reads
};

/// Forward and backward of a micro-batch of whole samples: adds to `gradients`, returns the scores.
Scores train_micro_batch(const ModelContext& context, std::span<const Sample* const> samples,
                         const TrainOptions& options, const LossGradient& loss_gradient,
                         Gradients& gradients);

}  // namespace rlreplay::engine
