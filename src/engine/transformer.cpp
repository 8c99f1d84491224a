#include "src/engine/transformer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/base/error.h"
#include "src/engine/check_samples.h"
#include "src/engine/finite.h"

namespace rlreplay::engine {
namespace {

using kernels::KernelSet;
using kernels::Matrix;

RowBatch batch_of(std::span<const Sample* const> samples, int64_t leaf) {
  std::vector<Chunk> chunks;
  for (const Sample* s : samples) chunks.push_back({s->id, 0, s->tokens});
  return make_row_batch(chunks, leaf);
}

/// The tokens are given: a sink that changes them changes a copy.
void show_tokens(const Runtime& runtime, const RowBatch& batch) {
  if (runtime.sink == nullptr) return;
  std::vector<int32_t> ids = batch.ids;
  runtime.emit({batch.phase, -1, Op::kBatch, "token"}, Matrix<int32_t>(ids.data(), batch.rows(), 1),
               batch.coordinates());
}

void embed(const Runtime& runtime, const Model& model, const RowBatch& batch, Buffer<float>& out) {
  const int64_t C = model.config().hidden, V = model.config().vocab;
  check(std::ranges::all_of(batch.ids, [V](int32_t id) { return id >= 0 && id < V; }),
        "a token is no id of the vocabulary");
  out.resize(static_cast<size_t>(batch.rows() * C));
  const Matrix<float> x{out.data(), batch.rows(), C};
  show_tokens(runtime, batch);
  runtime.run(&KernelSet::embedding,
              {model.matrix(model.parameters().embedding), batch.ids.data(), 0, x});
  runtime.emit({batch.phase, -1, Op::kEmbedding, "y"}, x, batch.coordinates());
}

void final_norm(const Runtime& runtime, const Model& model, const RowBatch& batch,
                Matrix<const float> x, Matrix<float> y, float* r) {
  runtime.run(&KernelSet::rms_norm, {x, model.weight(model.parameters().final_norm),
                                     static_cast<float>(model.config().norm_eps), y, r});
  runtime.emit({batch.phase, -1, Op::kFinalNorm, "y"}, y, batch.coordinates());
  runtime.emit({batch.phase, -1, Op::kFinalNorm, "r"}, Matrix<float>(r, batch.rows(), 1),
               batch.coordinates());
}

/// For a forward whose events were seen once, or that is no part of a step.
Runtime silent(const Runtime& runtime) { return {runtime.kernels, runtime.pool, nullptr}; }

}  // namespace

void transformer_forward(const ModelContext& context, const RowBatch& batch,
                         std::span<KvCache* const> caches, Buffer<float>& hidden) {
  const Runtime& runtime = context.runtime;
  const Model& model = context.model;
  const ModelConfig& c = model.config();
  const int64_t T = batch.rows();
  LayerActivations a;
  a.resize(c, T);
  embed(runtime, model, batch, a.x);
  Buffer<float> out(static_cast<size_t>(T * c.hidden)), r(static_cast<size_t>(T));
  for (int64_t l = 0; l < c.layers; ++l) {
    layer_forward(context, l, batch, caches, a, {out.data(), T, c.hidden});
    a.x.swap(out);
  }
  hidden.resize(static_cast<size_t>(T * c.hidden));
  final_norm(runtime, model, batch, Matrix<const float>(a.x.data(), T, c.hidden),
             {hidden.data(), T, c.hidden}, r.data());
}

ScoredRows rows_to_score(std::span<const Sample* const> samples, const RowBatch& batch,
                         int64_t leaf) {
  ScoredRows out;
  const bool nuclei =
      std::ranges::any_of(samples, [](const Sample* s) { return s->nuclei.has_value(); });
  for (size_t i = 0; i < samples.size(); ++i) {
    const Sample& s = *samples[i];
    for (int64_t t = 0; nuclei && t < s.response_length(); ++t) {
      out.nuclei.push_back(s.nuclei ? Nucleus(s.nuclei->at(static_cast<size_t>(t))) : Nucleus());
    }
    int64_t current = -1;
    for (int64_t p = s.prompt_length - 1; p + 1 < static_cast<int64_t>(s.tokens.size()); ++p) {
      if (p / leaf != current) {
        out.leaves.push_back({out.size(), out.size()});
        current = p / leaf;
      }
      out.rows.push_back(batch.chunks[i].begin + p);
      out.samples.push_back(s.id);
      out.positions.push_back(static_cast<int32_t>(p + 1));
      out.labels.push_back(s.tokens[static_cast<size_t>(p + 1)]);
      out.leaves.back().end = out.size();
    }
  }
  return out;
}

Scores score_samples(const ModelContext& context, std::span<const Sample* const> samples,
                     float temperature) {
  const RowBatch batch = batch_of(samples, 0);
  Buffer<float> hidden;
  transformer_forward(context, batch, {}, hidden);
  const ScoredRows scored = rows_to_score(samples, batch, kernels::kTokenLeaf);
  const Matrix<const float> rows{hidden.data(), batch.rows(), context.model.config().hidden};
  return head_forward(context.runtime, context.model, rows, scored, temperature);
}

Scores score(const ModelContext& context, std::span<const Sample* const> samples,
             float temperature) {
  for (const Sample* s : samples) check_sample(context.model.config(), *s);
  const Runtime unseen = silent(context.runtime);
  Scores out = score_samples(context.with(unseen), samples, temperature);
  size_t row = 0;
  for (const Sample* s : samples) {
    for (int64_t t = 0; t < s->response_length(); ++t, ++row) {
      if (s->is_masked(t)) continue;
      if (std::isfinite(out.log_probs[row]) && std::isfinite(out.entropy[row])) continue;
      refuse_score(context.with(unseen), *s, s->prompt_length + t, temperature);
    }
  }
  return out;
}

Scores train_micro_batch(const ModelContext& context, std::span<const Sample* const> samples,
                         const TrainOptions& options, const LossGradient& loss_gradient,
                         Gradients& gradients) {
  const Runtime& runtime = context.runtime;
  const Model& model = context.model;
  const ModelConfig& c = model.config();
  const RowBatch batch = batch_of(samples, options.leaf);
  const int64_t T = batch.rows(), C = c.hidden;
  const size_t size = static_cast<size_t>(T * C), L = static_cast<size_t>(c.layers);

  std::vector<LayerActivations> kept(L + 1);
  Buffer<float> recomputed(options.recompute ? size : 0);
  embed(runtime, model, batch, kept[0].x);
  for (size_t l = 0; l < L; ++l) {
    kept[l].resize(c, T);
    kept[l + 1].x.resize(size);
    layer_forward(context, static_cast<int64_t>(l), batch, {}, kept[l],
                  {kept[l + 1].x.data(), T, C});
    if (options.recompute) kept[l].release();
  }
  const Matrix<const float> last{kept[L].x.data(), T, C};
  Buffer<float> hidden(size), r(static_cast<size_t>(T)), dhidden(size), dx(size);
  final_norm(runtime, model, batch, last, {hidden.data(), T, C}, r.data());

  const ScoredRows scored = rows_to_score(samples, batch, options.leaf);
  const Scores scores =
      head_backward(runtime, model, {hidden.data(), T, C}, scored, options.temperature,
                    options.scored, loss_gradient, gradients, {dhidden.data(), T, C});
  runtime.emit({Phase::kBackward, -1, Op::kLogProb, "dx"}, Matrix<float>(dhidden.data(), T, C),
               batch.coordinates());
  const Matrix<float> d{dx.data(), T, C};
  const int norm = model.parameters().final_norm;
  runtime.run(&KernelSet::rms_norm_backward, {.x = last,
                                              .w = model.weight(norm),
                                              .r = r.data(),
                                              .dy = Matrix<const float>(dhidden.data(), T, C),
                                              .residual = {},
                                              .dx = d,
                                              .dw = gradients.token_sum({norm})});
  runtime.emit({Phase::kBackward, -1, Op::kFinalNorm, "dx"}, d, batch.coordinates());

  LayerScratch scratch;
  scratch.resize(c, T);
  for (size_t l = L; l-- > 0;) {
    if (options.recompute) {
      kept[l].resize(c, T);
      layer_forward(context.with(silent(runtime)), static_cast<int64_t>(l), batch, {}, kept[l],
                    {recomputed.data(), T, C});
    }
    layer_backward(context, static_cast<int64_t>(l), batch, kept[l], d, scratch, gradients, d);
    kept[l].release();
  }
  runtime.run(&KernelSet::embedding_tokens,
              {d, batch.ids.data(), 0, gradients.token_sum({model.parameters().embedding})});
  return scores;
}

}  // namespace rlreplay::engine
