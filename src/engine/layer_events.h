#pragma once

#include <string_view>

#include "src/engine/model_context.h"
#include "src/engine/parallel.h"
#include "src/engine/row_batch.h"

namespace rlreplay::engine {

/// Shows the tensors of one layer's forward or backward.
class LayerEvents {
 public:
  /// `layer` counts from the first of `context.model`. What it is given must outlive it.
  LayerEvents(const ModelContext& context, int64_t layer, const RowBatch& batch, Phase phase)
      : runtime_(context.runtime),
        batch_(batch),
        phase_(phase),
        layer_(static_cast<int>(context.model.shard().layers.begin + layer)),
        stream_begin_(stream_rows(context.runtime, batch.rows()).begin) {}

  /// Shows a tensor of all rows of the batch.
  void operator()(Op op, std::string_view tensor, kernels::Matrix<float> values) const {
    emit(op, tensor, values, 0);
  }

  /// Shows a tensor of those rows of the residual stream that the rank holds.
  void stream(Op op, std::string_view tensor, kernels::Matrix<float> values) const {
    emit(op, tensor, values, stream_begin_);
  }

 private:
  void emit(Op op, std::string_view tensor, kernels::Matrix<float> values, int64_t first) const {
    runtime_.emit({phase_, layer_, op, tensor}, values, batch_.coordinates(first));
  }

  const Runtime& runtime_;
  const RowBatch& batch_;
  const Phase phase_;
  const int layer_;
  const int64_t stream_begin_;
};

}  // namespace rlreplay::engine
