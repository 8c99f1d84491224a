#include "src/engine/torch/vocab.h"

#include "src/engine/torch/convert.h"

namespace rlreplay::aten {

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

}  // namespace rlreplay::aten
