#pragma once

#include "kernels/view.h"
#include "src/engine/layer.h"

namespace rlreplay::engine {

/// The operands of attention's backward on a rank: T rows, its H query and G kv heads.
struct AttentionGradient {
  kernels::Heads<const float> q, dout;
  const float* lse = nullptr;    // [T, H]
  const float* delta = nullptr;  // [T, H]
  kernels::Heads<const float> k, v;
  kernels::Heads<float> dq, dk, dv;
};

/// Attention's backward where the queries of a key lie on several ranks: the owner of a query runs
/// over all keys, then the owner of a key over the gathered queries of its whole group and sample,
/// so that no float is added across ranks (docs/numerics.md section 5). dk and dv of heads that
/// another rank owns are +0.
void attention_backward_apart(const ModelContext& context, const RowBatch& batch,
                              const LayerActivations& a, const AttentionGradient& g);

}  // namespace rlreplay::engine
