#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/sample.h"
#include "src/engine/head.h"
#include "src/engine/layer.h"
#include "src/engine/stage.h"

namespace rlreplay::engine {

/// The output of the final norm of every row, caches extended; in the last stage of a pipeline
/// alone. The stream of a forward alone is not cut (Layout::sp). Shapes: hidden [T, C].
void transformer_forward(const ModelContext& context, const RowBatch& batch,
                         std::span<KvCache* const> caches, Buffer<float>& hidden);

/// The forward of whole samples as a step does it, with its events; scores in the last stage alone.
[[nodiscard]] Scores score_samples(const ModelContext& context,
                                   std::span<const Sample* const> samples, float temperature);

/// Log-probabilities and entropies of the response tokens of `samples`, one after the other. Emits
/// nothing: it is no part of a step. Errors: as check_sample; kCorrupt for one that is not finite
/// and whose token is not masked. Where ranks share the model, only the last stage has scores.
[[nodiscard]] Scores score(const ModelContext& context, std::span<const Sample* const> samples,
                           float temperature);

/// Scores of each sample, `micro_batch_size` at a time (0: all). Only the last stage has any.
/// Errors: as of `score`.
[[nodiscard]] std::vector<Scores> score_each(const ModelContext& context,
                                             std::span<const Sample> samples, float temperature,
                                             int64_t micro_batch_size);

/// Appends to `out` the scores of each sample, of which `rows` has all, one sample after the other.
void append_scores(std::span<const Sample> samples, const Scores& rows, std::vector<Scores>& out);

}  // namespace rlreplay::engine
