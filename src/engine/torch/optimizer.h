#pragma once

#include <cstdint>

#include "src/engine/torch/array.h"

namespace rlreplay::aten {

struct AdamWResult {
  Array m;
  Array v;
  Array w;
};

/// One update by `at::_fused_adamw_`, torch.optim.AdamW's fused form. Shapes: all equal.
AdamWResult adamw(const Array& grad, const Array& m, const Array& v, const Array& w, double rate,
                  double beta1, double beta2, double eps, double weight_decay, int64_t step,
                  Precision precision);

}  // namespace rlreplay::aten
