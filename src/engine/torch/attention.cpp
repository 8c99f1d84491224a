#include "src/engine/torch/attention.h"

#include <cmath>
#include <limits>

#include "src/engine/torch/convert.h"

namespace rlreplay::aten {

AttentionResult attention(const Array& q, const Array& k, const Array& v, const Array& dout,
                          int64_t position, Precision precision) {
  const auto tq = to_parameter(q, precision);
  const auto tk = to_parameter(k, precision);
  const auto tv = to_parameter(v, precision);
  const int64_t group = tq.size(1) / tk.size(1);
  const auto heads = tq.transpose(0, 1);
  const auto keys = tk.transpose(0, 1).repeat_interleave(group, 0);
  const auto values = tv.transpose(0, 1).repeat_interleave(group, 0);
  const auto seen = at::ones({tq.size(0), tk.size(0)}, at::kBool).tril(position);
  const double scale = 1 / std::sqrt(static_cast<double>(tq.size(2)));
  const auto scores =
      (at::matmul(heads, keys.transpose(1, 2)) * scale)
          .masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
  const auto out = at::matmul(at::softmax(scores, -1), values).transpose(0, 1);
  out.backward(to_tensor(dout, precision));
  return {to_array(out), to_array(at::logsumexp(scores, {-1}).transpose(0, 1)), to_array(tq.grad()),
          to_array(tk.grad()), to_array(tv.grad())};
}

}  // namespace rlreplay::aten
