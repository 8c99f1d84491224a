#include "src/engine/stage.h"

#include <algorithm>
#include <cstring>

#include "src/base/error.h"
#include "src/engine/parallel.h"

namespace rlreplay::engine {
namespace {

using kernels::KernelSet;
using kernels::Matrix;
using kernels::Range;

/// The tokens are given: a sink that changes them changes a copy.
void show_tokens(const Runtime& runtime, const RowBatch& batch) {
  if (runtime.sink == nullptr) return;
  std::vector<int32_t> ids = batch.ids;
  runtime.emit({batch.phase, -1, Op::kBatch, "token"}, Matrix<int32_t>(ids.data(), batch.rows(), 1),
               batch.coordinates());
}

/// Rows `own` of the embeddings, each from the rank that has its id.
void gather_embeddings(const Runtime& runtime, int64_t vocab, const RowBatch& batch, Range own,
                       Matrix<const float> mine, Matrix<float> out) {
  Buffer<float> all;
  const Matrix<float> columns = gather_columns(runtime, mine, all);
  const int ranks = runtime.tp()->size();
  for (int64_t i = 0; i < own.size(); ++i) {
    const int32_t id = batch.ids[static_cast<size_t>(own.begin + i)];
    int rank = 0;
    while (kernels::segment(vocab, ranks, rank).end <= id) ++rank;
    std::memcpy(out.row(i), columns.row(own.begin + i) + rank * mine.cols,
                static_cast<size_t>(mine.cols) * sizeof(float));
  }
}

RowBatch rank_batch(const Runtime& runtime, std::span<const Sample* const> samples, int64_t leaf) {
  const Group* cp = runtime.cp();
  return cp == nullptr ? batch_of_samples(samples, leaf)
                       : batch_of_samples(samples, leaf, cp->rank(), cp->size());
}

std::span<std::byte> bytes_of(Buffer<float>& buffer) {
  return std::as_writable_bytes(std::span(buffer));
}

}  // namespace

void embed(const Runtime& runtime, const Model& model, const RowBatch& batch, Buffer<float>& out) {
  const int64_t C = model.config().hidden, V = model.config().vocab, T = batch.rows();
  check(std::ranges::all_of(batch.ids, [V](int32_t id) { return id >= 0 && id < V; }),
        "a token is no id of the vocabulary");
  const Range own = stream_rows(runtime, T);
  out.resize(static_cast<size_t>(own.size() * C));
  const Matrix<float> x{out.data(), own.size(), C};
  show_tokens(runtime, batch);
  const auto look_up = [&](Matrix<float> to) {
    runtime.run(&KernelSet::embedding,
                {model.matrix(model.parameters().embedding), batch.ids.data(),
                 static_cast<int32_t>(model.shard().vocab.begin), to});
  };
  if (runtime.tp() == nullptr) {
    look_up(x);
  } else {
    Buffer<float> mine(static_cast<size_t>(T * C));
    std::fill_n(mine.data(), mine.size(), 0.0f);
    look_up({mine.data(), T, C});
    gather_embeddings(runtime, V, batch, own, Matrix<const float>(mine.data(), T, C), x);
  }
  runtime.emit({batch.phase, -1, Op::kEmbedding, "y"}, x, batch.coordinates(own.begin));
}

void enter_stage(const Runtime& runtime, const Model& model, const RowBatch& batch,
                 Buffer<float>& out) {
  if (model.shard().first) return embed(runtime, model, batch, out);
  const kernels::Range own = stream_rows(runtime, batch.rows());
  out.resize(static_cast<size_t>(own.size() * model.config().hidden));
  runtime.ranks->pp.receive(runtime.ranks->place.pp - 1, bytes_of(out));
}

bool leave_stage(const Runtime& runtime, const Model& model, const Buffer<float>& x) {
  if (model.shard().last) return false;
  runtime.ranks->pp.send(runtime.ranks->place.pp + 1, std::as_bytes(std::span(x)));
  return true;
}

void final_norm(const Runtime& runtime, const Model& model, const RowBatch& batch,
                Matrix<const float> x, Matrix<float> y, float* r) {
  const Range own = stream_rows(runtime, batch.rows());
  const Matrix<float> own_y{y.row(own.begin), own.size(), y.cols};
  runtime.run(&KernelSet::rms_norm, {.x = x,
                                     .w = model.weight(model.parameters().final_norm),
                                     .eps = static_cast<float>(model.config().norm_eps),
                                     .y = own_y,
                                     .r = r});
  runtime.emit({batch.phase, -1, Op::kFinalNorm, "y"}, own_y, batch.coordinates(own.begin));
  runtime.emit({batch.phase, -1, Op::kFinalNorm, "r"}, Matrix<float>(r, own.size(), 1),
               batch.coordinates(own.begin));
  gather_stream(runtime, y);
}

std::vector<const Sample*> pointers_to(std::span<const Sample> samples) {
  std::vector<const Sample*> out;
  for (const Sample& s : samples) out.push_back(&s);
  return out;
}

// The row of position p scores the token at p + 1, so the prompt's last row is the first one.
// Leaves are runs of equal p / leaf: they follow positions, however a sample is cut.
ScoredRows rows_to_score(std::span<const Sample* const> samples, const RowBatch& batch,
                         int64_t leaf) {
  ScoredRows out;
  const bool nuclei =
      std::ranges::any_of(samples, [](const Sample* s) { return s->nuclei.has_value(); });
  for (size_t i = 0; i < batch.chunks.size(); ++i) {
    const Sample& s = *samples[i / batch.chunks_a_sample];
    const Range rows = batch.chunks[i];
    if (rows.size() == 0) continue;
    const int64_t first = batch.positions[static_cast<size_t>(rows.begin)];
    const int64_t end = std::min(first + rows.size(), std::ssize(s.tokens) - 1);
    int64_t current = -1;
    for (int64_t p = std::max(first, s.prompt_length - 1); p < end; ++p) {
      if (p / leaf != current) {
        out.leaves.push_back({out.size(), out.size()});
        current = p / leaf;
      }
      const auto token = static_cast<size_t>(p + 1 - s.prompt_length);
      if (nuclei) out.nuclei.push_back(s.nuclei ? Nucleus(s.nuclei->at(token)) : Nucleus());
      out.rows.push_back(rows.begin + p - first);
      out.samples.push_back(s.id);
      out.positions.push_back(static_cast<int32_t>(p + 1));
      out.labels.push_back(s.tokens[static_cast<size_t>(p + 1)]);
      out.leaves.back().end = out.size();
    }
  }
  return out;
}

StageBatch::StageBatch(const ModelContext& context, std::span<const Sample* const> samples,
                       const StageOptions& options)
    : context_(context),
      samples_(samples),
      options_(options),
      batch_(rank_batch(context.runtime, samples, options.leaf)),
      own_(stream_rows(context.runtime, batch_.rows())),
      kept_(static_cast<size_t>(context.model.shard().layer_count() + 1)) {}

Matrix<float> StageBatch::stream(Buffer<float>& buffer) const {
  return {buffer.data(), own_.size(), context_.model.config().hidden};
}

void StageBatch::run_layer(const ModelContext& context, size_t layer, Buffer<float>& out) {
  kept_[layer].resize(context.model, batch_.rows(), own_.size());
  layer_forward(context, static_cast<int64_t>(layer), batch_, {}, kept_[layer], stream(out));
}

// kept_[l].x is what layer l reads, and the last one what the stage gives on.
void StageBatch::forward() {
  const Runtime& runtime = context_.runtime;
  const Model& model = context_.model;
  const auto size = static_cast<size_t>(own_.size() * model.config().hidden);
  enter_stage(runtime, model, batch_, kept_[0].x);
  for (size_t l = 0; l + 1 < kept_.size(); ++l) {
    kept_[l + 1].x.resize(size);
    run_layer(context_, l, kept_[l + 1].x);
    if (options_.recompute) kept_[l].release();
  }
  if (leave_stage(runtime, model, kept_.back().x)) kept_.back().x = Buffer<float>();
}

/// dx = the gradient of the last layer's output.
Scores StageBatch::head(const LossGradient& loss_gradient, Gradients& gradients, Matrix<float> dx) {
  const Runtime& runtime = context_.runtime;
  const Model& model = context_.model;
  const int64_t T = batch_.rows(), C = model.config().hidden;
  const auto size = static_cast<size_t>(T * C);
  const Matrix<const float> last = stream(kept_.back().x);
  Buffer<float> hidden(size), r(static_cast<size_t>(own_.size())), dhidden(size);
  final_norm(runtime, model, batch_, last, {hidden.data(), T, C}, r.data());

  const ScoredRows scored = rows_to_score(samples_, batch_, options_.leaf);
  const Scores scores =
      head_backward(runtime, model, {hidden.data(), T, C}, scored, options_.temperature,
                    options_.scored, loss_gradient, gradients, {dhidden.data(), T, C});
  const Matrix<float> dy{dhidden.data(), T, C};
  runtime.emit({Phase::kBackward, -1, Op::kLogProb, "dx"}, dy, batch_.coordinates());
  const int norm = model.parameters().final_norm;
  runtime.run(&KernelSet::rms_norm_backward,
              {.x = last,
               .w = model.weight(norm),
               .r = r.data(),
               .dy = Matrix<const float>(dy.row(own_.begin), own_.size(), C),
               .residual = {},
               .dx = dx,
               .dw = gradients.token_sum({norm})});
  runtime.emit({Phase::kBackward, -1, Op::kFinalNorm, "dx"}, dx, batch_.coordinates(own_.begin));
  return scores;
}

Scores StageBatch::backward(const LossGradient& loss_gradient, Gradients& gradients) {
  const Runtime& runtime = context_.runtime;
  const Model& model = context_.model;
  Buffer<float> dx(static_cast<size_t>(own_.size() * model.config().hidden));
  const Matrix<float> d = stream(dx);
  Scores scores;
  if (model.shard().last) {
    scores = head(loss_gradient, gradients, d);
  } else {
    runtime.ranks->pp.receive(runtime.ranks->place.pp + 1, bytes_of(dx));
  }
  LayerScratch scratch;
  scratch.resize(model, batch_.rows(), own_.size());
  Buffer<float> recomputed(options_.recompute ? dx.size() : 0);
  const Runtime silent = runtime.with(nullptr);
  // Layers that run again show nothing, since their events were seen in the forward. `d` is the
  // gradient of a layer's output, and then, in place, of its input.
  for (size_t l = kept_.size() - 1; l-- > 0;) {
    if (options_.recompute) run_layer(context_.with(silent), l, recomputed);
    layer_backward(context_, static_cast<int64_t>(l), batch_, kept_[l], d, scratch, gradients, d);
    kept_[l].release();
  }
  if (!model.shard().first) {
    runtime.ranks->pp.send(runtime.ranks->place.pp - 1, bytes_of(dx));
    return scores;
  }
  Buffer<float> room;
  runtime.run(&KernelSet::embedding_tokens,
              {whole_stream(runtime, d, batch_.rows(), room), batch_.ids.data(),
               static_cast<int32_t>(model.shard().vocab.begin),
               gradients.token_sum({model.parameters().embedding})});
  return scores;
}

}  // namespace rlreplay::engine
