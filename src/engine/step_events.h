#pragma once

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

/// Its outputs, before c and ce go into the backward.
void emit_terms(const Runtime& runtime, std::span<TokenTerms> terms,
                const RowCoordinates& coordinates);

/// A scalar of the phases objective and clip.
template <class T>
void emit_scalar(const Runtime& runtime, Phase phase, Op op, std::string_view tensor, T& value) {
  runtime.emit_whole({phase, -1, op, tensor}, kernels::Matrix<T>(&value, 1, 1));
}

void emit_losses(const Runtime& runtime, Losses& losses);

/// Every parameter's exact sum.
void emit_gradients(const Runtime& runtime, const ParameterTable& parameters, Gradients& gradients);
/// What a rank holds of them.
void emit_gradient_parts(const Runtime& runtime, const Model& model, Gradients& gradients);

}  // namespace rlreplay::engine
