#pragma once

#include <cstdint>

#include "src/engine/model.h"

namespace rlreplay::engine {

/// Random weights of a model that has never been trained, then packed for forward and backward:
/// norms 1, biases 0, all else uniform with deviation 1 / sqrt(columns), the projections back into
/// the residual 1 / sqrt(2 L) of that. Element i of parameter p is a word of Philox4x32-10 at
/// counter (i / 4, p), key `seed`: no order of filling can change it.
void initialize(const Runtime& runtime, uint64_t seed, Model& model);

}  // namespace rlreplay::engine
