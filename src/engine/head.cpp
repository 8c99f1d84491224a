#include "src/engine/head.h"

#include <algorithm>

namespace rlreplay::engine {
namespace {

using kernels::Matrix;
using kernels::Range;

/// Consecutive leaves with at most kHeadRows rows together, or one leaf that alone has more.
std::vector<std::span<const Range>> groups(const std::vector<Range>& leaves) {
  std::vector<std::span<const Range>> out;
  for (size_t first = 0; first < leaves.size();) {
    size_t end = first + 1;
    while (end < leaves.size() && leaves[end].end - leaves[first].begin <= kHeadRows) ++end;
    out.push_back(std::span(leaves).subspan(first, end - first));
    first = end;
  }
  return out;
}

template <class T>
std::span<const T> part(const std::vector<T>& all, Range rows) {
  return std::span(all).subspan(static_cast<size_t>(rows.begin), static_cast<size_t>(rows.size()));
}

Range rows_of(std::span<const Range> leaves) { return {leaves.front().begin, leaves.back().end}; }

/// The forward of one group of leaves.
void forward(VocabPass& pass, Matrix<const float> hidden, const ScoredRows& scored, Range rows) {
  pass.forward(hidden, part(scored.rows, rows));
  pass.score(part(scored.labels, rows),
             scored.nuclei.empty() ? std::span<const Nucleus>() : part(scored.nuclei, rows));
}

/// Scores one group of leaves, shows the scores, and appends them to `out`.
void score_group(const Runtime& runtime, VocabPass& pass, Matrix<const float> hidden,
                 const ScoredRows& scored, Range rows, Scores& out) {
  forward(pass, hidden, scored, rows);
  const auto emit = [&](std::string_view tensor, std::span<float> values) {
    runtime.emit({Phase::kForward, -1, Op::kLogProb, tensor},
                 Matrix<float>(values.data(), rows.size(), 1), scored.coordinates(rows.begin));
  };
  emit("log_prob", pass.log_probs());
  emit("entropy", pass.entropy());
  out.log_probs.insert(out.log_probs.end(), pass.log_probs().begin(), pass.log_probs().end());
  out.entropy.insert(out.entropy.end(), pass.entropy().begin(), pass.entropy().end());
}

/// The forward of a group that was scored before, with the scores as they were shown.
void forward_again(VocabPass& pass, Matrix<const float> hidden, const ScoredRows& scored,
                   Range rows, const Scores& scores) {
  forward(pass, hidden, scored, rows);
  std::ranges::copy(part(scores.log_probs, rows), pass.log_probs().begin());
  std::ranges::copy(part(scores.entropy, rows), pass.entropy().begin());
}

void backward_group(VocabPass& pass, const ScoredRows& scored, std::span<const Range> leaves,
                    const Scores& scores, const LossGradient& loss_gradient, Gradients& gradients,
                    Matrix<float> dhidden) {
  const Range rows = rows_of(leaves);
  std::vector<float> c(static_cast<size_t>(rows.size())), ce(c.size());
  loss_gradient(rows, scores, c, ce);
  std::vector<Range> local;
  for (const Range& leaf : leaves) {
    local.push_back({leaf.begin - rows.begin, leaf.end - rows.begin});
  }
  pass.backward(part(scored.rows, rows), part(scored.labels, rows), c, ce, local, gradients,
                dhidden);
}

}  // namespace

Scores head_forward(const Runtime& runtime, const Model& model, Matrix<const float> hidden,
                    const ScoredRows& scored, float temperature, Logits precision) {
  Scores out;
  VocabPass pass(runtime, model, temperature, precision);
  for (const auto leaves : groups(scored.leaves)) {
    score_group(runtime, pass, hidden, scored, rows_of(leaves), out);
  }
  return out;
}

Scores head_backward(const Runtime& runtime, const Model& model, Matrix<const float> hidden,
                     const ScoredRows& scored, float temperature, Scored before,
                     const LossGradient& loss_gradient, Gradients& gradients,
                     Matrix<float> dhidden) {
  for (int64_t t = 0; t < dhidden.rows; ++t) std::fill_n(dhidden.row(t), dhidden.cols, 0.0f);
  Scores out;
  VocabPass pass(runtime, model, temperature);
  const auto all = groups(scored.leaves);
  const bool twice = before == Scored::kAll && all.size() > 1;
  // A rank whose slices have no scored token still meets those that it shares samples with.
  if (all.empty()) loss_gradient({0, 0}, out, {}, {});
  for (const auto leaves : all) {
    score_group(runtime, pass, hidden, scored, rows_of(leaves), out);
    if (!twice) backward_group(pass, scored, leaves, out, loss_gradient, gradients, dhidden);
  }
  for (size_t g = 0; twice && g < all.size(); ++g) {
    forward_again(pass, hidden, scored, rows_of(all[g]), out);
    backward_group(pass, scored, all[g], out, loss_gradient, gradients, dhidden);
  }
  return out;
}

}  // namespace rlreplay::engine
