#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/sample.h"
#include "src/engine/head.h"
#include "src/engine/layer.h"
#include "src/engine/stage.h"

namespace rlreplay::engine {

/// The output of the final norm of every row, caches extended. Shapes: hidden [T, C].
void transformer_forward(const ModelContext& context, const RowBatch& batch,
                         std::span<KvCache* const> caches, Buffer<float>& hidden);

/// The forward of whole samples as a step does it, with its events.
Scores score_samples(const ModelContext& context, std::span<const Sample* const> samples,
                     float temperature);

/// Log-probabilities and entropies of the response tokens of `samples`, one after the other. Emits
/// nothing: it is no part of a step. Errors: as check_sample; kCorrupt for one that is not finite
/// and whose token is not masked.
Scores score(const ModelContext& context, std::span<const Sample* const> samples,
             float temperature);

/// Cuts what was scored of samples one after the other by sample.
void append_scores(std::span<const Sample> samples, const Scores& rows, std::vector<Scores>& out);

}  // namespace rlreplay::engine
