#include "src/engine/vocab_pass.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "src/base/error.h"
#include "src/engine/bfloat16.h"
#include "src/engine/parallel.h"

namespace rlreplay::engine {

using kernels::KernelSet;
using kernels::Matrix;

VocabPass::VocabPass(const Runtime& runtime, const Model& model, float temperature,
                     Logits precision)
    : runtime_(runtime),
      model_(model),
      temperature_(temperature > 0 ? temperature : 1.0f),
      precision_(precision) {}

Matrix<float> VocabPass::compact() { return {hidden_.data(), rows_, model_.config().hidden}; }
Matrix<float> VocabPass::logits() { return {logits_.data(), rows_, ids()}; }

void VocabPass::forward(Matrix<const float> hidden, std::span<const int64_t> rows) {
  const ModelConfig& c = model_.config();
  const size_t n = rows.size();
  rows_ = static_cast<int64_t>(n);
  hidden_.resize(n * static_cast<size_t>(c.hidden));
  logits_.resize(n * static_cast<size_t>(ids()));
  for (Buffer<float>* b : {&label_, &sum_, &log_sum_, &log_prob_, &entropy_}) b->resize(n);
  for (size_t i = 0; i < n; ++i) {
    std::memcpy(compact().row(static_cast<int64_t>(i)), hidden.row(rows[i]),
                static_cast<size_t>(c.hidden) * sizeof(float));
  }
  runtime_.run(&KernelSet::matmul, {.x = compact(),
                                    .w = &model_.packed_head(),
                                    .order = &model_.orders().hidden,
                                    .bias = nullptr,
                                    .residual = {},
                                    .y = logits()});
  if (precision_ == Logits::kBfloat16) round_elements(logits());
  statistics(logits(), temperature_, max_, z_, e_);
}

/// The maximum of the whole row comes first, since every rank's sums are relative to it; then sums
/// by segment, of which each rank adds its own. They are gathered, not added: log_prob adds
/// segments in one order, however many ranks there are.
void VocabPass::statistics(Matrix<float> logits, float temperature, Buffer<float>& max,
                           Buffer<float>& z, Buffer<float>& e) {
  const auto& segments = model_.orders().vocab_segments;
  const auto rows = static_cast<size_t>(logits.rows);
  const auto width = static_cast<int64_t>(segments.size());
  max.resize(rows);
  z.resize(rows * segments.size());
  e.resize(rows * segments.size());
  runtime_.run(&KernelSet::vocab_max, {logits, temperature, max.data()});
  if (runtime_.tp() != nullptr) {
    Buffer<float> room;
    const Matrix<float> all = gather_columns(runtime_, {max.data(), logits.rows, 1}, room);
    for (int64_t i = 0; i < all.rows; ++i) {
      max[static_cast<size_t>(i)] = *std::max_element(all.row(i), all.row(i) + all.cols);
    }
  }
  runtime_.run(&KernelSet::vocab_sums, {.logits = logits,
                                        .max = max.data(),
                                        .segments = segments,
                                        .z = {z.data(), logits.rows, width},
                                        .e = {e.data(), logits.rows, width}});
  if (runtime_.tp() == nullptr) return;
  for (Buffer<float>* sums : {&z, &e}) {
    Buffer<float> room;
    static_cast<void>(gather_columns(runtime_, {sums->data(), logits.rows, width}, room));
    sums->swap(room);
  }
}

void VocabPass::label_logits(Matrix<const float> logits, std::span<const int32_t> labels,
                             Buffer<float>& out) {
  const std::vector<int32_t> at = columns(labels);
  out.resize(labels.size());
  for (size_t i = 0; i < at.size(); ++i) {
    const bool here = at[i] >= 0 && at[i] < logits.cols;
    out[i] = here ? logits(static_cast<int64_t>(i), at[i]) : 0.0f;
  }
  if (runtime_.tp() == nullptr) return;
  Buffer<float> room;
  const Matrix<float> all = gather_columns(runtime_, {out.data(), logits.rows, 1}, room);
  const int64_t vocab = model_.config().vocab;
  for (size_t i = 0; i < labels.size(); ++i) {
    int64_t rank = 0;
    while (kernels::segment(vocab, all.cols, rank).end <= labels[i]) ++rank;
    out[i] = all(static_cast<int64_t>(i), rank);
  }
}

std::vector<int32_t> VocabPass::columns(std::span<const int32_t> labels) const {
  const auto first = static_cast<int32_t>(model_.shard().vocab.begin);
  std::vector<int32_t> out(labels.begin(), labels.end());
  for (int32_t& label : out) label -= first;
  return out;
}

void VocabPass::finish(const float* label_logits) {
  const int64_t width = kernels::kAxisSegments;
  const Matrix<const float> z{z_.data(), rows_, width}, e{e_.data(), rows_, width};
  runtime_.run(&KernelSet::log_prob, {.z = z,
                                      .e = e,
                                      .max = max_.data(),
                                      .label_logit = label_logits,
                                      .sum = sum_.data(),
                                      .log_sum = log_sum_.data(),
                                      .log_prob = log_prob_.data(),
                                      .entropy = entropy_.data()});
}

int64_t VocabPass::first_not_finite() const {
  // Every logit is in the entropy, with a factor that is no number where the logit is none.
  for (int64_t i = 0; i < rows_; ++i) {
    if (!std::isfinite(entropy_[static_cast<size_t>(i)])) return i;
  }
  return -1;
}

std::vector<int32_t> VocabPass::sample(std::span<const kernels::Draw> draws,
                                       const SamplingConfig& config) {
  std::vector<int32_t> ids(draws.size());
  kernels::DrawTokens op;
  // The noise belongs to an id, top-k and top-p to a whole row: every rank draws from all of it.
  Buffer<float> room;
  op.logits = runtime_.tp() == nullptr
                  ? logits()
                  : gather_axis(runtime_, logits(), model_.config().vocab, room);
  op.max = max_.data();
  op.sum = sum_.data();
  op.draws = draws;
  op.seed = config.seed;
  op.greedy = config.temperature == 0;
  op.top_k = config.top_k;
  op.top_p = config.top_p;
  op.ids = ids.data();
  runtime_.run(&KernelSet::draw_tokens, op);
  return ids;
}

void VocabPass::score(std::span<const int32_t> labels, std::span<const Nucleus> nuclei) {
  for (size_t i = 0; i < labels.size(); ++i) {
    check(labels[i] >= 0 && labels[i] < model_.config().vocab,
          "a label is no id of the vocabulary");
  }
  label_logits(logits(), labels, label_);
  finish(label_.data());
  restricted_.rows.clear();
  if (!nuclei.empty()) restrict(labels, nuclei);
}

/// Ids outside of a nucleus get the lowest number and not -infinity, of which the sum of the
/// entropy would make 0 times -infinity, a NaN. The row's own logits stay as they are, for its
/// entropy.
void VocabPass::restrict(std::span<const int32_t> labels, std::span<const Nucleus> nuclei) {
  Restricted& r = restricted_;
  for (size_t i = 0; i < nuclei.size(); ++i) {
    if (nuclei[i]) r.rows.push_back(static_cast<int64_t>(i));
  }
  const size_t n = r.rows.size();
  const auto count = static_cast<int64_t>(n);
  r.logits.resize(n * static_cast<size_t>(ids()));
  for (Buffer<float>* b : {&r.sum, &r.log_sum, &r.log_prob, &r.entropy}) b->resize(n);
  std::fill(r.logits.data(), r.logits.data() + r.logits.size(),
            std::numeric_limits<float>::lowest());
  const Matrix<float> kept{r.logits.data(), count, ids()};
  const kernels::Range held = model_.shard().vocab;
  std::vector<int32_t> own_labels;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t row = r.rows[static_cast<size_t>(k)];
    const auto keep = [&](int32_t id) {
      if (id < held.begin || id >= held.end) return;
      kept(k, id - held.begin) = logits()(row, id - held.begin);
    };
    own_labels.push_back(labels[static_cast<size_t>(row)]);
    for (const int32_t id : *nuclei[static_cast<size_t>(row)]) keep(id);
    keep(own_labels.back());
  }
  statistics(kept, 1.0f, r.max, r.z, r.e);
  label_logits(kept, own_labels, r.label);
  const Matrix<float> z{r.z.data(), count, kernels::kAxisSegments};
  const Matrix<float> e{r.e.data(), count, kernels::kAxisSegments};
  runtime_.run(&KernelSet::log_prob, {.z = z,
                                      .e = e,
                                      .max = r.max.data(),
                                      .label_logit = r.label.data(),
                                      .sum = r.sum.data(),
                                      .log_sum = r.log_sum.data(),
                                      .log_prob = r.log_prob.data(),
                                      .entropy = r.entropy.data()});
  for (size_t k = 0; k < n; ++k) log_prob_[static_cast<size_t>(r.rows[k])] = r.log_prob[k];
}

/// Adds the log-probability's part of the gradient to the entropy's in rows that have a nucleus.
void VocabPass::restricted_backward(std::span<const int32_t> labels, std::span<const float> c) {
  Restricted& r = restricted_;
  const auto count = static_cast<int64_t>(r.rows.size());
  const Matrix<float> kept{r.logits.data(), count, ids()};
  std::vector<int32_t> own_labels;
  std::vector<float> own_c, none(r.rows.size());
  for (const int64_t row : r.rows) {
    own_labels.push_back(labels[static_cast<size_t>(row)]);
    own_c.push_back(c[static_cast<size_t>(row)]);
  }
  runtime_.run(&KernelSet::log_prob_backward, {.logits = kept,
                                               .max = r.max.data(),
                                               .sum = r.sum.data(),
                                               .log_sum = r.log_sum.data(),
                                               .entropy = none.data(),
                                               .labels = own_labels.data(),
                                               .c = own_c.data(),
                                               .ce = none.data(),
                                               .temperature = temperature_,
                                               .dlogits = kept});
  for (int64_t k = 0; k < count; ++k) {
    float* to = logits().row(r.rows[static_cast<size_t>(k)]);
    for (int64_t j = 0; j < kept.cols; ++j) to[j] += kept(k, j);
  }
}

void VocabPass::backward(std::span<const int64_t> rows, std::span<const int32_t> ids_of_rows,
                         std::span<const float> c, std::span<const float> ce,
                         std::span<const kernels::Range> leaves, Gradients& gradients,
                         Matrix<float> dhidden) {
  const std::vector<int32_t> labels = columns(ids_of_rows);
  // Where a nucleus restricts the log-probability, only the entropy is of all ids.
  std::vector<float> of_all(c.begin(), c.end());
  for (const int64_t row : restricted_.rows) of_all[static_cast<size_t>(row)] = 0;
  runtime_.run(&KernelSet::log_prob_backward, {.logits = logits(),
                                               .max = max_.data(),
                                               .sum = sum_.data(),
                                               .log_sum = log_sum_.data(),
                                               .entropy = entropy_.data(),
                                               .labels = labels.data(),
                                               .c = of_all.data(),
                                               .ce = ce.data(),
                                               .temperature = temperature_,
                                               .dlogits = logits()});
  if (!restricted_.rows.empty()) restricted_backward(labels, c);
  runtime_.run(&KernelSet::matmul_tokens,
               gradients.product(logits(), compact(), leaves, {model_.parameters().head}));
  row_parallel(runtime_, logits(), model_.packed_head_dx(), model_.orders().head_dx, {}, compact(),
               {0, rows_});
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(dhidden.row(rows[i]), compact().row(static_cast<int64_t>(i)),
                static_cast<size_t>(dhidden.cols) * sizeof(float));
  }
}

}  // namespace rlreplay::engine
