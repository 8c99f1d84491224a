#include "src/engine/torch/optimizer.h"

#include "src/engine/torch/convert.h"

namespace rlreplay::aten {

AdamWResult adamw(const Array& grad, const Array& m, const Array& v, const Array& w, double rate,
                  double beta1, double beta2, double eps, double weight_decay, int64_t step,
                  Precision precision) {
  const auto g = to_tensor(grad, precision), tm = to_tensor(m, precision);
  const auto tv = to_tensor(v, precision), tw = to_tensor(w, precision);
  const auto count = at::scalar_tensor(static_cast<double>(step));
  at::_fused_adamw_({tw}, {g}, {tm}, {tv}, {}, {count}, rate, beta1, beta2, weight_decay, eps,
                    /*amsgrad=*/false, /*maximize=*/false);
  return {to_array(tm), to_array(tv), to_array(tw)};
}

}  // namespace rlreplay::aten
