#pragma once

#include "src/engine/gradients.h"
#include "src/engine/model.h"
#include "src/engine/runtime.h"

namespace rlreplay::engine {

/// Adds what other ranks have contributed to the parameters that this one holds: afterwards every
/// rank that holds an element has its sum over the global batch, with zero (Layout) one that holds
/// its moments; what is left elsewhere is of no use. Only integers are added.
void reduce_gradients(const Runtime& runtime, const Model& model, Gradients& gradients);

/// What ranks together refuse of a step's contributions.
struct RefusedByRanks {
  bool any = false;
  bool finite = true;  // whether a smaller scale may take them
};
[[nodiscard]] RefusedByRanks gather_refused(const Runtime& runtime, const Gradients& gradients);

}  // namespace rlreplay::engine
