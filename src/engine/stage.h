#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/sample.h"
#include "src/engine/head.h"
#include "src/engine/layer.h"

namespace rlreplay::engine {

/// How a micro-batch goes through a stage; `recompute` changes no bit.
struct StageOptions {
  float temperature = 1;
  int64_t leaf = kernels::kTokenLeaf;  // tokens of a leaf
  bool recompute = false;  // keep a layer's input only, run its forward again in the backward
  Scored scored = Scored::kUpToRow;  // what a loss's gradient reads
};

/// The embedding of a batch's rows: those that the rank holds of the stream. Shapes: out [S, C].
void embed(const Runtime& runtime, const Model& model, const RowBatch& batch, Buffer<float>& out);

/// What a stage of a pipeline begins with: embeddings, or what the stage before sends.
/// Shapes: out [S, C].
void enter_stage(const Runtime& runtime, const Model& model, const RowBatch& batch,
                 Buffer<float>& out);

/// Sends `x` to the next stage; false where this is the last.
[[nodiscard]] bool leave_stage(const Runtime& runtime, const Model& model, const Buffer<float>& x);

/// y and r of the final norm. Shapes: x [S, C], r [S], y [T, C]: every row, also with sp.
void final_norm(const Runtime& runtime, const Model& model, const RowBatch& batch,
                kernels::Matrix<const float> x, kernels::Matrix<float> y, float* r);

/// A batch of neighbours, as the functions below take it.
[[nodiscard]] std::vector<const Sample*> pointers_to(std::span<const Sample> samples);

/// The rows that a response token follows, of a batch whose samples are `samples` in this order.
[[nodiscard]] ScoredRows rows_to_score(std::span<const Sample* const> samples,
                                       const RowBatch& batch, int64_t leaf);

/// A micro-batch in this rank's stage of the pipeline, which is the whole model where there is no
/// pipeline. Between its forward and its backward other micro-batches may go through the stage.
class StageBatch {
 public:
  /// `samples` and what `context` points to must outlive it.
  StageBatch(const ModelContext& context, std::span<const Sample* const> samples,
             const StageOptions& options);

  /// Computes what the next stage receives, from the tokens or from what the stage before sends.
  void forward();

  /// Computes what the stage before receives, from the loss of the scores, which it returns, or
  /// from what the next stage sends; adds to `gradients`. Only the last stage has scores, and it
  /// alone asks `loss_gradient` for their gradient.
  Scores backward(const LossGradient& loss_gradient, Gradients& gradients);

 private:
  Scores head(const LossGradient& loss_gradient, Gradients& gradients, kernels::Matrix<float> dx);
  kernels::Matrix<float> stream(Buffer<float>& buffer) const;
  void run_layer(const ModelContext& context, size_t layer, Buffer<float>& out);

  const ModelContext context_;
  const std::span<const Sample* const> samples_;
  const StageOptions options_;
  const RowBatch batch_;
  const kernels::Range own_;  // rows of the stream
  std::vector<LayerActivations> kept_;
};

}  // namespace rlreplay::engine
