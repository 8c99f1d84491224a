#include <algorithm>
#include <cmath>
#include <limits>

#include "src/replay/rerun/operation_forms.h"

namespace rlreplay::replay {
namespace {

using engine::Op;
using kernels::Matrix;

/// The hidden rows, which the backward reads behind c and ce.
Matrix<const float> hidden_of(const Operation& op) {
  return op.rows[op.event.phase == engine::Phase::kForward ? 0 : 2];
}

/// A model of the head alone.
engine::Model head_of(const Operation& op, const engine::Runtime& runtime) {
  ModelConfig config = op.model;
  config.layers = 0;
  engine::Model out(config);
  const Matrix<const float> head = op.weights[0];
  const int64_t offset = out.parameters()[out.parameters().head].offset;
  std::copy_n(head.data, head.rows * head.cols, out.weights().data() + offset);
  out.pack(runtime, engine::PackedFor::kTraining);
  return out;
}

/// Puts the recorded entropies in the place of those that are computed again.
class RecordedEntropies : public engine::EventSink {
 public:
  explicit RecordedEntropies(Matrix<const float> recorded) : next_(recorded.data) {}
  bool wants(const engine::Event& event) const override {
    return event.op == Op::kLogProb && event.tensor == "entropy";
  }
  void rows(const engine::Event&, const engine::EventView& values,
            const engine::RowCoordinates&) override {
    std::copy_n(next_, values.rows, reinterpret_cast<float*>(values.data));
    next_ += values.rows;
  }
  void whole(const engine::Event&, const engine::EventView&) override {}
  void restart() override {}

 private:
  const float* next_;
};

/// A row's logits, and what they add up to over the ids that count.
struct Logits64 {
  std::vector<double> l;
  double log_sum = 0;  // of the exponentials

  double log_prob(int64_t id) const { return l[static_cast<size_t>(id)] - log_sum; }
};

void add_up(Logits64& logits) {
  const double most = *std::ranges::max_element(logits.l);
  double sum = 0;
  for (const double l : logits.l) sum += std::exp(l - most);
  logits.log_sum = most + std::log(sum);
}

Logits64 logits64(const Operation& op, int64_t scored) {
  const float* x = hidden_of(op).row(op.scored.rows[static_cast<size_t>(scored)]);
  const Matrix<const float> w = op.weights[0];
  Logits64 out;
  out.l.resize(static_cast<size_t>(w.rows));
  for (int64_t id = 0; id < w.rows; ++id) {
    double sum = 0;
    for (int64_t k = 0; k < w.cols; ++k) sum += static_cast<double>(x[k]) * w(id, k);
    out.l[static_cast<size_t>(id)] = sum / (op.temperature > 0 ? op.temperature : 1);
  }
  add_up(out);
  return out;
}

/// What the log-probability is taken over: all ids, or those that top-p left and the label.
Logits64 kept64(const Operation& op, int64_t scored, const Logits64& all) {
  const auto i = static_cast<size_t>(scored);
  if (op.scored.nuclei.empty() || !op.scored.nuclei[i]) return all;
  Logits64 out;
  out.l.assign(all.l.size(), -std::numeric_limits<double>::infinity());
  const auto keep = [&](int32_t id) {
    out.l[static_cast<size_t>(id)] = all.l[static_cast<size_t>(id)];
  };
  std::ranges::for_each(*op.scored.nuclei[i], keep);
  keep(op.scored.labels[i]);
  add_up(out);
  return out;
}

}  // namespace

void compute_scores(const Operation& op, const engine::Runtime& runtime, Matrix<float> out) {
  const engine::Model head = head_of(op, runtime);
  const Scores scores =
      engine::head_forward(runtime, head, hidden_of(op), op.scored, op.temperature);
  std::ranges::copy(op.event.tensor == "entropy" ? scores.entropy : scores.log_probs, out.data);
}

/// log p(label) over what top-p left; the entropy, -sum of p log p, over all ids.
void scores64(const Operation& op, int64_t row, std::span<double> out) {
  const Logits64 all = logits64(op, row);
  if (op.event.tensor == "log_prob") {
    out[0] = kept64(op, row, all).log_prob(op.scored.labels[static_cast<size_t>(row)]);
    return;
  }
  for (const double l : all.l) out[0] -= std::exp(l - all.log_sum) * (l - all.log_sum);
}

void compute_scores_backward(const Operation& op, const engine::Runtime& runtime,
                             Matrix<float> out) {
  RecordedEntropies entropies(op.rows[3]);
  const engine::Model head = head_of(op, runtime);
  engine::Gradients gradients(head.parameters());
  gradients.begin(0, {});
  const auto loss_gradient = [&](kernels::Range rows, const Scores&, std::span<float> c,
                                 std::span<float> ce) {
    std::copy_n(op.rows[0].data + rows.begin, rows.size(), c.begin());
    std::copy_n(op.rows[1].data + rows.begin, rows.size(), ce.begin());
  };
  static_cast<void>(engine::head_backward(runtime.with(&entropies), head, hidden_of(op), op.scored,
                                          op.temperature, engine::Scored::kUpToRow, loss_gradient,
                                          gradients, out));
}

/// With c = -dL/d(log p) and ce = -dL/d(entropy) the derivative by logit i is
/// (c (p_i - [i is the label]) + ce p_i (log p_i + entropy)) / temperature; dx is the product of
/// these with the head's rows.
void scores_backward64(const Operation& op, int64_t row, std::span<double> out) {
  const auto at = std::ranges::lower_bound(op.scored.rows, row);
  if (at == op.scored.rows.end() || *at != row) return;
  const auto scored = static_cast<int64_t>(at - op.scored.rows.begin());
  const double c = op.rows[0].data[scored], ce = op.rows[1].data[scored];
  if (c == 0 && ce == 0) return;
  const double entropy = op.rows[3].data[scored];
  const Logits64 all = logits64(op, scored), kept = kept64(op, scored, all);
  const Matrix<const float> w = op.weights[0];
  for (int64_t id = 0; id < w.rows; ++id) {
    const double log_p = all.log_prob(id),
                 label = op.scored.labels[static_cast<size_t>(scored)] == id;
    double d = ce * std::exp(log_p) * (log_p + entropy) + (std::exp(kept.log_prob(id)) - label) * c;
    d /= op.temperature > 0 ? op.temperature : 1;
    for (size_t i = 0; i < out.size(); ++i) out[i] += d * w(id, static_cast<int64_t>(i));
  }
}

}  // namespace rlreplay::replay
