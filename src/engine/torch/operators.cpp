#include "src/engine/torch/operators.h"

#include <cmath>
#include <limits>
#include <tuple>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

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

AttentionResult attention(const Array& q, const Array& k, const Array& v, const Array& dout,
                          int64_t position, Precision precision) {
  const auto tq = to_parameter(q, precision);
  const auto tk = to_parameter(k, precision);
  const auto tv = to_parameter(v, precision);
  const int64_t group = tq.size(1) / tk.size(1);
  // [1, H, T, D]
  const auto heads = tq.transpose(0, 1).unsqueeze(0);
  const auto keys = tk.transpose(0, 1).repeat_interleave(group, 0).unsqueeze(0);
  const auto values = tv.transpose(0, 1).repeat_interleave(group, 0).unsqueeze(0);
  const auto mask =
      at::full({tq.size(0), tk.size(0)}, -std::numeric_limits<double>::infinity(), tq.options())
          .triu(position + 1);
  const auto out = std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
                                   heads, keys, values, 0.0, false, mask.unsqueeze(0).unsqueeze(0)))
                       .squeeze(0)
                       .transpose(0, 1);
  out.backward(to_tensor(dout, precision));
  const double scale = 1 / std::sqrt(static_cast<double>(tq.size(2)));
  const auto scores = at::matmul(heads, keys.transpose(2, 3)) * scale + mask;
  return {to_array(out), to_array(at::logsumexp(scores, {-1}).squeeze(0).transpose(0, 1)),
          to_array(tq.grad()), to_array(tk.grad()), to_array(tv.grad())};
}

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

LogProbResult log_prob(const Array& logits, const Array& labels, const Array& c, const Array& ce,
                       double temperature, Precision precision) {
  const auto l = to_parameter(logits, precision);
  const auto all = at::log_softmax(l / temperature, 1);
  const auto taken = all.gather(1, to_integers(labels).unsqueeze(1)).squeeze(1);
  const auto entropy = -(all.exp() * all).sum(1);
  const auto loss = -(to_tensor(c, precision) * taken + to_tensor(ce, precision) * entropy).sum();
  loss.backward();
  return {to_array(taken), to_array(entropy), to_array(l.grad())};
}

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

void set_threads(int threads) { at::set_num_threads(threads); }

}  // namespace rlreplay::aten
