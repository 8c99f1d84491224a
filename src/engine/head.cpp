#include "src/engine/head.h"

#include <algorithm>

namespace rlreplay::engine {
namespace {

using kernels::Matrix;
using kernels::Range;

// Rows whose logits are held at once: enough to keep the products busy, and whole leaves.
constexpr int64_t kRows = 256;

/// Consecutive leaves with at most kRows rows together, or one leaf that alone has more.
std::vector<std::span<const Range>> groups(const std::vector<Range>& leaves) {
  std::vector<std::span<const Range>> out;
  for (size_t first = 0; first < leaves.size();) {
    size_t end = first + 1;
    while (end < leaves.size() && leaves[end].end - leaves[first].begin <= kRows) ++end;
    out.push_back(std::span(leaves).subspan(first, end - first));
    first = end;
  }
  return out;
}

template <class T>
std::span<const T> part(const std::vector<T>& all, Range rows) {
  return std::span(all).subspan(static_cast<size_t>(rows.begin), static_cast<size_t>(rows.size()));
}

/// Runs the forward of one group of leaves and appends its scores. Returns the group's rows.
Range score_group(const Runtime& run, VocabPass& pass, Matrix<const float> hidden,
                  const ScoredRows& scored, std::span<const Range> leaves, Scores& out) {
  const Range rows{leaves.front().begin, leaves.back().end};
  pass.forward(hidden, part(scored.rows, rows));
  pass.score(part(scored.labels, rows));
  const auto emit = [&](std::string_view tensor, std::span<float> values) {
    run.emit({Phase::kForward, -1, Op::kLogProb, tensor},
             Matrix<float>(values.data(), rows.size(), 1), scored.coordinates(rows.begin));
  };
  emit("log_prob", pass.log_probs());
  emit("entropy", pass.entropy());
  out.log_probs.insert(out.log_probs.end(), pass.log_probs().begin(), pass.log_probs().end());
  out.entropy.insert(out.entropy.end(), pass.entropy().begin(), pass.entropy().end());
  return rows;
}

}  // namespace

Scores head_forward(const Runtime& run, const Model& model, Matrix<const float> hidden,
                    const ScoredRows& scored, float temperature, Logits precision) {
  Scores out;
  VocabPass pass(run, model, temperature, precision);
  for (const auto leaves : groups(scored.leaves))
    score_group(run, pass, hidden, scored, leaves, out);
  return out;
}

Scores head_backward(const Runtime& run, const Model& model, Matrix<const float> hidden,
                     const ScoredRows& scored, float temperature, const LossGradient& loss_gradient,
                     Gradients& gradients, Matrix<float> dhidden) {
  for (int64_t t = 0; t < dhidden.rows; ++t) std::fill_n(dhidden.row(t), dhidden.cols, 0.0f);
  Scores out;
  VocabPass pass(run, model, temperature);
  for (const auto leaves : groups(scored.leaves)) {
    const Range rows = score_group(run, pass, hidden, scored, leaves, out);
    std::vector<float> c(static_cast<size_t>(rows.size())), ce(c.size());
    loss_gradient(rows, out, c, ce);
    std::vector<Range> local;
    for (const Range& leaf : leaves) {
      local.push_back({leaf.begin - rows.begin, leaf.end - rows.begin});
    }
    pass.backward(part(scored.rows, rows), part(scored.labels, rows), c, ce, local, gradients,
                  dhidden);
  }
  return out;
}

}  // namespace rlreplay::engine
