#include "src/engine/vocab_pass.h"

#include <cstring>

#include "src/engine/bfloat16.h"

namespace rlreplay::engine {

using kernels::KernelSet;
using kernels::Matrix;

VocabPass::VocabPass(const Runtime& runtime, const Model& model, float temperature,
                     Logits precision)
    : run_(runtime),
      model_(model),
      temperature_(temperature > 0 ? temperature : 1.0f),
      precision_(precision) {}

Matrix<float> VocabPass::compact() { return {hidden_.data(), rows_, model_.config().hidden}; }
Matrix<float> VocabPass::logits() { return {logits_.data(), rows_, model_.config().vocab}; }

void VocabPass::forward(Matrix<const float> hidden, std::span<const int64_t> rows) {
  const ModelConfig& c = model_.config();
  const auto& segments = model_.orders().vocab_segments;
  const size_t n = rows.size();
  rows_ = static_cast<int64_t>(n);
  hidden_.resize(n * static_cast<size_t>(c.hidden));
  logits_.resize(n * static_cast<size_t>(c.vocab));
  for (Buffer<float>* b : {&max_, &label_, &sum_, &log_sum_, &log_prob_, &entropy_}) b->resize(n);
  z_.resize(n * segments.size());
  e_.resize(n * segments.size());
  for (size_t i = 0; i < n; ++i) {
    std::memcpy(compact().row(static_cast<int64_t>(i)), hidden.row(rows[i]),
                static_cast<size_t>(c.hidden) * sizeof(float));
  }
  run_.run(&KernelSet::matmul,
           {compact(), &model_.packed_head(), &model_.orders().hidden, nullptr, {}, logits()});
  if (precision_ == Logits::kBfloat16) round_to_bfloat16(logits());
  run_.run(&KernelSet::vocab_max, {logits(), temperature_, max_.data()});
  const auto width = static_cast<int64_t>(segments.size());
  run_.run(&KernelSet::vocab_sums,
           {logits(), max_.data(), segments, {z_.data(), rows_, width}, {e_.data(), rows_, width}});
}

void VocabPass::finish(const float* label_logits) {
  const auto width = static_cast<int64_t>(model_.orders().vocab_segments.size());
  const Matrix<const float> z{z_.data(), rows_, width}, e{e_.data(), rows_, width};
  run_.run(&KernelSet::log_prob, {z, e, max_.data(), label_logits, sum_.data(), log_sum_.data(),
                                  log_prob_.data(), entropy_.data()});
}

std::vector<int32_t> VocabPass::sample(std::span<const kernels::Draw> draws,
                                       const SamplingConfig& config) {
  finish(max_.data());  // for the sums; the log-probabilities come with the labels
  std::vector<int32_t> ids(draws.size());
  kernels::Sample op;
  op.logits = logits();
  op.max = max_.data();
  op.sum = sum_.data();
  op.draws = draws;
  op.seed = config.seed;
  op.greedy = config.temperature == 0;
  op.top_k = config.top_k;
  op.top_p = config.top_p;
  op.ids = ids.data();
  run_.run(&KernelSet::sample, op);
  return ids;
}

void VocabPass::score(std::span<const int32_t> labels) {
  for (size_t i = 0; i < labels.size(); ++i) {
    label_[i] = logits()(static_cast<int64_t>(i), labels[i]);
  }
  finish(label_.data());
}

void VocabPass::backward(std::span<const int64_t> rows, std::span<const int32_t> labels,
                         std::span<const float> c, std::span<const float> ce,
                         std::span<const kernels::Range> leaves, Gradients& gradients,
                         Matrix<float> dhidden) {
  run_.run(&KernelSet::log_prob_backward,
           {logits(), max_.data(), sum_.data(), log_sum_.data(), entropy_.data(), labels.data(),
            c.data(), ce.data(), temperature_, logits()});
  run_.run(&KernelSet::matmul_tokens,
           gradients.product(logits(), compact(), leaves, {model_.parameters().head}));
  run_.run(&KernelSet::matmul,
           {logits(), &model_.packed_head_dx(), &model_.orders().head_dx, nullptr, {}, compact()});
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(dhidden.row(rows[i]), compact().row(static_cast<int64_t>(i)),
                static_cast<size_t>(dhidden.cols) * sizeof(float));
  }
}

}  // namespace rlreplay::engine
