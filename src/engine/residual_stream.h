#pragma once

#include "src/events/events.h"

namespace rlreplay::engine {

/// Whether rows of an operation as wide as the model, or of one number, are of the residual stream:
/// with sp each rank of tensor parallelism has some of these, and each has all of the others.
[[nodiscard]] inline bool of_stream(Op op) {
  return op != Op::kBatch && op != Op::kLogProb && op != Op::kTargets && op != Op::kTerms;
}

}  // namespace rlreplay::engine
