#pragma once

#include "src/engine/model.h"
#include "src/engine/rotary.h"
#include "src/engine/runtime.h"

namespace rlreplay::engine {

/// What every pass through the model needs: where it computes, with which weights and positions.
struct ModelContext {
  const Runtime& runtime;
  const Model& model;
  RotaryView rotary;

  /// This context, watched by another sink; `watched` must outlive the result.
  ModelContext with(const Runtime& watched) const { return {watched, model, rotary}; }
};

}  // namespace rlreplay::engine
