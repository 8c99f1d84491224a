#pragma once

#include <algorithm>
#include <span>

#include "src/engine/gradients.h"
#include "src/engine/model.h"
#include "src/engine/runtime.h"
#include "src/objective/batch_objective.h"
#include "src/objective/token_objective.h"

/// What run_step shows of the objective and of the gradients. Nothing is computed without a sink.
namespace rlreplay::engine {

/// The objective's inputs, one a token, before they are used.
void emit_targets(const Runtime& runtime, std::span<TokenInput> tokens, bool reference,
                  bool rollout_log_probs, const RowCoordinates& coordinates);

/// The objective's outputs, one a token, before c and ce go into the backward.
void emit_terms(const Runtime& runtime, std::span<TokenTerms> terms,
                const RowCoordinates& coordinates);

/// A scalar of the phases objective and clip.
template <class T>
void emit_scalar(const Runtime& runtime, Phase phase, Op op, std::string_view tensor, T& value) {
  runtime.emit_whole({phase, -1, op, tensor}, kernels::Matrix<T>(&value, 1, 1));
}

/// Shows the losses of the global batch, a scalar each; the sink may change them.
void emit_losses(const Runtime& runtime, Losses& losses);

/// Every parameter's exact sum.
void emit_gradients(const Runtime& runtime, const ParameterTable& parameters, Gradients& gradients);

/// What a rank holds of every parameter: `values` are the elements `held` of its flat storage.
template <class T>
void emit_parts(const Runtime& runtime, const Model& model, Phase phase, Op op, T* values,
                kernels::Range held) {
  for (size_t i = 0; i < model.slices().size(); ++i) {
    const Parameter& p = model.parameters().list[i];
    const Slice& slice = model.slices()[i];
    const int64_t begin = std::max(p.offset, held.begin);
    const int64_t end = std::min(p.offset + p.size(), held.end);
    if (begin >= end) continue;
    const kernels::Matrix<T> part(values + begin - held.begin, (end - begin) / p.cols, p.cols);
    runtime.emit_part({phase, p.layer, op, p.name}, part, slice.row + (begin - p.offset) / p.cols,
                      slice.column);
  }
}

}  // namespace rlreplay::engine
