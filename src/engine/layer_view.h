#pragma once

#include <cstdint>

#include "src/engine/layer_events.h"
#include "src/engine/model_context.h"
#include "src/engine/parallel.h"
#include "src/engine/row_batch.h"

namespace rlreplay::engine {

/// A decoder layer as a rank computes it over a batch: its weights, and how wide its tensors are.
/// `layer` counts from the first of `context.model`. What it is given must outlive it.
struct LayerView {
  LayerView(const ModelContext& given, int64_t number, const RowBatch& rows, Phase phase)
      : context(given),
        layer(number),
        batch(rows),
        T(rows.rows()),
        own(stream_rows(given.runtime, T)),
        emit(given, number, rows, phase) {}

  const ModelContext& context;
  const int64_t layer;
  const RowBatch& batch;

  const Runtime& runtime = context.runtime;
  const Model& model = context.model;
  const ModelConfig& c = model.config();
  const Shard& shard = model.shard();
  const LayerParameters& p = model.parameters().layers[static_cast<size_t>(layer)];
  const PackedLayer& packed = model.packed(layer);
  const Orders& orders = model.orders();

  const int64_t T;               // rows of the batch
  const kernels::Range own;      // of them those of the residual stream that the rank holds
  const int64_t S = own.size();  // how many these are
  const int64_t C = c.hidden;
  const int64_t D = c.head_dim;
  const int64_t F = shard.intermediate.size();
  const int64_t H = shard.heads.size();
  const int64_t G = shard.kv_heads.size();
  const int64_t width = (H + 2 * G) * D;  // of queries, keys and values side by side
  const kernels::HeadGroups groups{shard.heads.begin, c.heads / c.kv_heads};

  const LayerEvents emit;
};

}  // namespace rlreplay::engine
