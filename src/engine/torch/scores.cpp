#include "src/engine/torch/scores.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <c10/core/GradMode.h>

namespace rlreplay::aten {

namespace {

/// Whether an id is among what top-p kept of its row, or is its label.
at::Tensor kept_ids(std::span<const Sample> samples, const at::Tensor& logits,
                    const at::Tensor& labels) {
  const c10::NoGradGuard constant;
  auto kept = at::zeros_like(logits, at::kBool);
  int64_t row = 0;
  for (const Sample& s : samples) {
    for (int64_t t = 0; t < s.response_length(); ++t, ++row) {
      if (!s.nuclei) {
        kept.select(0, row).fill_(true);
        continue;
      }
      const auto ids = s.nuclei->at(static_cast<size_t>(t));
      const std::vector<int64_t> wide(ids.begin(), ids.end());
      kept.select(0, row).index_fill_(0, at::tensor(wide, at::kLong), true);
    }
  }
  return kept.scatter_(1, labels, true);
}

/// Log-probabilities over the kept ids; `all` where no sample says which.
at::Tensor restricted(std::span<const Sample> samples, const at::Tensor& logits,
                      const at::Tensor& labels, const at::Tensor& all) {
  const auto says = [](const Sample& s) { return s.nuclei.has_value(); };
  if (std::ranges::none_of(samples, says)) return all;
  const auto kept = kept_ids(samples, logits, labels);
  return at::log_softmax(logits.masked_fill(at::logical_not(kept), -INFINITY), -1);
}

}  // namespace

RowScores score_rows(const Network& network, const at::Tensor& hidden,
                     std::span<const Sample> samples, double temperature, bool entropy_gradient) {
  std::vector<int64_t> rows, labels;
  int64_t first = 0;
  for (const Sample& s : samples) {
    for (size_t p = static_cast<size_t>(s.prompt_length); p < s.tokens.size(); ++p) {
      rows.push_back(first + static_cast<int64_t>(p) - 1);
      labels.push_back(s.tokens[p]);
    }
    first += static_cast<int64_t>(s.tokens.size());
  }
  const auto scored = hidden.index_select(0, at::tensor(rows, at::kLong));
  const auto logits = network.logits(scored, temperature);
  const auto all = at::log_softmax(logits, -1);
  const auto label = at::tensor(labels, at::kLong).unsqueeze(1);
  RowScores out;
  out.log_prob = restricted(samples, logits, label, all).gather(1, label).squeeze(1);
  std::optional<c10::NoGradGuard> constant;
  if (!entropy_gradient) constant.emplace();
  out.entropy = -(all.exp() * all).sum(-1);
  return out;
}

at::Tensor hidden_of(Network& network, std::span<const Sample> samples) {
  Packed packed;
  for (const Sample& s : samples) packed.add(s.tokens);
  return network.hidden(
      packed.ids, packed.positions,
      [&](int64_t, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
        return attend_packed(packed.lengths, q, k, v);
      });
}

}  // namespace rlreplay::aten
