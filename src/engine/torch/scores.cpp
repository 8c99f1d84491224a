#include "src/engine/torch/scores.h"

#include <optional>
#include <vector>

#include <c10/core/GradMode.h>

namespace rlreplay::aten {

RowScores score_rows(const Network& network, const at::Tensor& hidden,
                     std::span<const engine::Sample> samples, double temperature,
                     bool entropy_gradient) {
  std::vector<int64_t> rows, labels;
  int64_t first = 0;
  for (const engine::Sample& s : samples) {
    for (size_t p = static_cast<size_t>(s.prompt_length); p < s.tokens.size(); ++p) {
      rows.push_back(first + static_cast<int64_t>(p) - 1);
      labels.push_back(s.tokens[p]);
    }
    first += static_cast<int64_t>(s.tokens.size());
  }
  const auto scored = hidden.index_select(0, at::tensor(rows, at::kLong));
  const auto all = at::log_softmax(network.logits(scored, temperature), -1);
  RowScores out;
  out.log_prob = all.gather(1, at::tensor(labels, at::kLong).unsqueeze(1)).squeeze(1);
  std::optional<c10::NoGradGuard> constant;
  if (!entropy_gradient) constant.emplace();
  out.entropy = -(all.exp() * all).sum(-1);
  return out;
}

at::Tensor hidden_of(Network& network, std::span<const engine::Sample> samples) {
  Packed packed;
  for (const engine::Sample& s : samples) packed.add(s.tokens);
  return network.hidden(
      packed.ids, packed.positions,
      [&](int64_t, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
        return attend_packed(packed.lengths, q, k, v);
      });
}

}  // namespace rlreplay::aten
