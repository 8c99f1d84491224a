#include "src/engine/transformer.h"

#include <cmath>

#include "src/base/error.h"
#include "src/engine/check_samples.h"
#include "src/engine/finite.h"
#include "src/engine/schedule.h"

namespace rlreplay::engine {

using kernels::Matrix;

void transformer_forward(const ModelContext& context, const RowBatch& batch,
                         std::span<KvCache* const> caches, Buffer<float>& hidden) {
  const Runtime& runtime = context.runtime;
  const Model& model = context.model;
  const ModelConfig& c = model.config();
  const int64_t T = batch.rows();
  check(runtime.ranks == nullptr || !runtime.ranks->layout.sp,
        "a forward alone does not cut the stream");
  // Those of one layer serve all, since nothing goes backward.
  LayerActivations a;
  a.resize(model, T, T);
  Buffer<float> out(static_cast<size_t>(T * c.hidden)), r(static_cast<size_t>(T));
  enter_stage(runtime, model, batch, a.x);
  for (int64_t l = 0; l < model.shard().layer_count(); ++l) {
    layer_forward(context, l, batch, caches, a, {out.data(), T, c.hidden});
    a.x.swap(out);
  }
  if (leave_stage(runtime, model, a.x)) return;
  hidden.resize(static_cast<size_t>(T * c.hidden));
  final_norm(runtime, model, batch, Matrix<const float>(a.x.data(), T, c.hidden),
             {hidden.data(), T, c.hidden}, r.data());
}

Scores score_samples(const ModelContext& context, std::span<const Sample* const> samples,
                     float temperature) {
  const RowBatch batch = batch_of_samples(samples, 0);
  Buffer<float> hidden;
  transformer_forward(context, batch, {}, hidden);
  if (!context.model.shard().last) return {};
  const ScoredRows scored = rows_to_score(samples, batch, kernels::kTokenLeaf);
  const Matrix<const float> rows{hidden.data(), batch.rows(), context.model.config().hidden};
  return head_forward(context.runtime, context.model, rows, scored, temperature);
}

Scores score(const ModelContext& context, std::span<const Sample* const> samples,
             float temperature) {
  for (const Sample* s : samples) check_sample(context.model.config(), *s);
  // Scoring is no event of a step, whoever watches the runtime.
  const Runtime unseen = context.runtime.with(nullptr);
  Scores out = score_samples(context.with(unseen), samples, temperature);
  if (!context.model.shard().last) return out;
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

std::vector<Scores> score_each(const ModelContext& context, std::span<const Sample> samples,
                               float temperature, int64_t micro_batch_size) {
  std::vector<Scores> out;
  for (const MicroBatch& part : micro_batches(samples.size(), micro_batch_size)) {
    const auto some = samples.subspan(part.first, part.count);
    const Scores scores = score(context, pointers_to(some), temperature);
    if (context.model.shard().last) append_scores(some, scores, out);
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
