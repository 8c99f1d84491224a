#include "src/engine/torch/rows.h"

#include "src/engine/torch/convert.h"

namespace rlreplay::aten {

RmsNormResult rms_norm(const Array& x, const Array& w, double eps, const Array& dy,
                       Precision precision) {
  const auto tx = to_parameter(x, precision), tw = to_parameter(w, precision);
  const auto y = at::rms_norm(tx, {tw.size(0)}, tw, eps);
  y.backward(to_tensor(dy, precision));
  return {to_array(y), to_array(tx.grad()), to_array(tw.grad())};
}

RotaryResult rotary(const Array& x, const Array& cos, const Array& sin, const Array& dy,
                    Precision precision) {
  const auto tx = to_parameter(x, precision);
  const auto c = to_tensor(cos, precision), s = to_tensor(sin, precision);
  const auto both = [](const at::Tensor& half) { return at::cat({half, half}, 1).unsqueeze(1); };
  const auto halves = tx.chunk(2, 2);
  const auto turned = at::cat({-halves[1], halves[0]}, 2);
  const auto y = tx * both(c) + turned * both(s);
  y.backward(to_tensor(dy, precision));
  return {to_array(y), to_array(tx.grad())};
}

SwigluResult swiglu(const Array& gate, const Array& up, const Array& dout, Precision precision) {
  const auto g = to_parameter(gate, precision), u = to_parameter(up, precision);
  const auto out = at::silu(g) * u;
  out.backward(to_tensor(dout, precision));
  return {to_array(out), to_array(g.grad()), to_array(u.grad())};
}

}  // namespace rlreplay::aten
