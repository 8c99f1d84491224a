#pragma once

#include <cstdint>
#include <span>

#include "kernels/view.h"
#include "src/base/buffer.h"
#include "src/engine/gradients.h"
#include "src/engine/kv_cache.h"
#include "src/engine/model_context.h"
#include "src/engine/row_batch.h"

namespace rlreplay::engine {

/// What a layer's backward needs of its forward. T rows each; the residual stream has S of them:
/// all, or with sequence parallelism (Layout::sp) the rank's part. H, G and F are the rank's own.
struct LayerActivations {
  Buffer<float> x;             // [S, C] input
  Buffer<float> h, r;          // [T, C], [S]: input norm
  Buffer<float> qkv;           // [T, (H + 2 G) D] after the bias
  Buffer<float> q, k;          // [T, H D], [T, G D] after norm and rotary
  Buffer<float> q_r, k_r;      // [T, H], [T, G]: query and key norm
  Buffer<float> attention;     // [T, H D]
  Buffer<float> lse;           // [T, H]
  Buffer<float> all_k, all_v;  // [all ranks' rows, G D]: where samples are cut over ranks
  Buffer<float> middle;        // [S, C] after the attention's residual
  Buffer<float> h2, r2;        // [T, C], [S]: post norm
  Buffer<float> gate_up;       // [T, 2 F]
  Buffer<float> act;           // [T, F]

  // Both leave x as it is.
  void resize(const Model& model, int64_t rows, int64_t stream_rows);
  void release();
};

/// Buffers that the backward of every layer reuses.
struct LayerScratch {
  Buffer<float> dact, dgate_up, dh, dmiddle, dattention, delta, dqkv;
  Buffer<float> gathered;  // the stream's rows of all ranks

  void resize(const Model& model, int64_t rows, int64_t stream_rows);
};

/// One decoder layer: out = layer(a.x). With caches (one a chunk) keys and values are appended to
/// them and read from them, else every chunk is a whole sample, or what the rank holds of one.
/// `layer` counts from the first of `context.model`. Shapes: a.x, out [S, C].
void layer_forward(const ModelContext& context, int64_t layer, const RowBatch& batch,
                   std::span<KvCache* const> caches, LayerActivations& a,
                   kernels::Matrix<float> out);

/// dx = d(loss)/d(a.x) from dout = d(loss)/d(out), and the layer's weight gradients.
/// Shapes: dout, dx [S, C]; may be the same.
void layer_backward(const ModelContext& context, int64_t layer, const RowBatch& batch,
                    const LayerActivations& a, kernels::Matrix<const float> dout,
                    LayerScratch& scratch, Gradients& gradients, kernels::Matrix<float> dx);

}  // namespace rlreplay::engine
