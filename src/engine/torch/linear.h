#pragma once

#include "src/engine/torch/array.h"

namespace rlreplay::aten {

struct LinearResult {
  Array y;
  Array dx;
  Array dw;
  Array dbias;
};

/// y = x w^T (+ bias) and, for the gradient `dy` of y, those of x, w and bias.
/// Shapes: x [M, K], w [N, K], bias [N] or not given, dy [M, N].
LinearResult linear(const Array& x, const Array& w, const Array& bias, const Array& dy,
                    Precision precision);

}  // namespace rlreplay::aten
