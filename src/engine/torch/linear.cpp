#include "src/engine/torch/linear.h"

#include "src/engine/torch/convert.h"

namespace rlreplay::aten {

LinearResult linear(const Array& x, const Array& w, const Array& bias, const Array& dy,
                    Precision precision) {
  const auto tx = to_parameter(x, precision);
  const auto tw = to_parameter(w, precision);
  const auto tbias = bias.shape.empty() ? at::Tensor() : to_parameter(bias, precision);
  const auto y = at::linear(tx, tw, tbias);
  y.backward(to_tensor(dy, precision));
  return {to_array(y), to_array(tx.grad()), to_array(tw.grad()),
          tbias.defined() ? to_array(tbias.grad()) : Array{}};
}

}  // namespace rlreplay::aten
