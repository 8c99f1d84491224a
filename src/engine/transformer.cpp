#include "src/engine/transformer.h"

#include <cmath>

#include "src/base/error.h"
#include "src/engine/check_samples.h"
#include "src/engine/finite.h"

namespace rlreplay::engine {

using kernels::Matrix;

void transformer_forward(const ModelContext& context, const RowBatch& batch,
                         std::span<KvCache* const> caches, Buffer<float>& hidden) {
  const Runtime& runtime = context.runtime;
  const Model& model = context.model;
  const ModelConfig& c = model.config();
  const int64_t T = batch.rows();
  check(runtime.ranks == nullptr, "a forward alone runs in one rank");
  LayerActivations a;
  a.resize(model, T, T);
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

Scores score_samples(const ModelContext& context, std::span<const Sample* const> samples,
                     float temperature) {
  const RowBatch batch = batch_of_samples(samples, 0);
  Buffer<float> hidden;
  transformer_forward(context, batch, {}, hidden);
  const ScoredRows scored = rows_to_score(samples, batch, kernels::kTokenLeaf);
  const Matrix<const float> rows{hidden.data(), batch.rows(), context.model.config().hidden};
  return head_forward(context.runtime, context.model, rows, scored, temperature);
}

Scores score(const ModelContext& context, std::span<const Sample* const> samples,
             float temperature) {
  for (const Sample* s : samples) check_sample(context.model.config(), *s);
  const Runtime unseen = context.runtime.with(nullptr);
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

void append_scores(std::span<const Sample> samples, const Scores& rows, std::vector<Scores>& out) {
  int64_t first = 0;
  for (const Sample& s : samples) {
    const int64_t end = first + s.response_length();
    const auto part = [&](const std::vector<float>& all) {
      return std::vector<float>(all.begin() + first, all.begin() + end);
    };
    out.push_back({part(rows.log_probs), part(rows.entropy)});
    first = end;
  }
}

}  // namespace rlreplay::engine
