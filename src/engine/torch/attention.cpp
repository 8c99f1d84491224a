#include "src/engine/torch/attention.h"

#include <cmath>
#include <limits>
#include <tuple>

#include "src/engine/torch/convert.h"

namespace rlreplay::aten {

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

}  // namespace rlreplay::aten
