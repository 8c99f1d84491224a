#include "src/engine/attention_apart.h"

#include <algorithm>
#include <vector>

#include "src/engine/parallel.h"

namespace rlreplay::engine {
namespace {

using kernels::AttentionBackwardSample;
using kernels::Heads;
using kernels::KernelSet;
using kernels::Matrix;
using kernels::Range;

Heads<const float> rows_of(Heads<const float> of, Range rows) {
  return {of.at(rows.begin, 0), rows.size(), of.heads, of.dim, of.stride};
}

/// The rows of a chunk's whole sample, among all ranks' rows or the batch's own.
Range sample_rows(const RowBatch& batch, size_t chunk) {
  if (!batch.context) return batch.chunks[chunk];
  return batch.context->samples[chunk / batch.chunks_a_sample];
}

/// Keys and values of all ranks' rows.
struct Keys {
  Heads<const float> k, v;
};

Keys all_keys(const RowBatch& batch, const LayerActivations& a, const AttentionGradient& g) {
  if (!batch.context) return {g.k, g.v};
  const int64_t rows = batch.context->rows;
  return {{a.all_k.data(), rows, g.k.heads, g.k.dim}, {a.all_v.data(), rows, g.v.heads, g.v.dim}};
}

/// dq of the rank's own queries.
void query_pass(const ModelContext& context, const RowBatch& batch, const Keys& keys,
                const AttentionGradient& g) {
  std::vector<AttentionBackwardSample> samples;
  for (size_t i = 0; i < batch.chunks.size(); ++i) {
    const Range rows = batch.chunks[i], all = sample_rows(batch, i);
    if (rows.size() == 0) continue;
    AttentionBackwardSample& s = samples.emplace_back();
    s.queries = rows;
    s.position = batch.positions[static_cast<size_t>(rows.begin)];
    s.k = rows_of(keys.k, all);
    s.v = rows_of(keys.v, all);
  }
  const Shard& shard = context.model.shard();
  const ModelConfig& c = context.model.config();
  context.runtime.run(&KernelSet::attention_backward,
                      {.samples = samples,
                       .groups = {shard.heads.begin, c.heads / c.kv_heads},
                       .q = g.q,
                       .dout = g.dout,
                       .lse = g.lse,
                       .delta = g.delta,
                       .dq = g.dq,
                       .dk = {},
                       .dv = {}});
}

/// What the owner of keys reads of the queries of its groups: the columns of their heads, the rows
/// of all ranks.
class Queries {
 public:
  Queries(const Runtime& runtime, const RowBatch& batch, const Shard& shard, Range heads)
      : runtime_(runtime), batch_(batch), shard_(shard), heads_(heads) {}

  /// [rows, heads, dim] of what each rank has its own heads of.
  Heads<const float> gather(Heads<const float> own, Buffer<float>& room) const {
    const Matrix<const float> mine{own.data, own.tokens, own.heads * own.dim, own.stride};
    Buffer<float> columns;
    Matrix<const float> all = mine;
    int64_t first = shard_.heads.begin;
    if (shard_.replicas) {
      all = gather_columns(runtime_, mine, columns);
      first = 0;
    }
    // Without a gap: lse and delta have no stride.
    const int64_t width = heads_.size() * own.dim;
    const float* from = all.data + (heads_.begin - first) * own.dim;
    Buffer<float> chosen(static_cast<size_t>(own.tokens * width));
    for (int64_t r = 0; r < own.tokens; ++r) {
      std::copy_n(from + r * all.stride, width, chosen.data() + r * width);
    }
    if (!batch_.context) {
      room.swap(chosen);
      return {room.data(), own.tokens, heads_.size(), own.dim};
    }
    const Matrix<float> rows =
        gather_context(runtime_, *batch_.context, {chosen.data(), own.tokens, width}, room);
    return {rows.data, rows.rows, heads_.size(), own.dim};
  }

 private:
  const Runtime& runtime_;
  const RowBatch& batch_;
  const Shard& shard_;
  const Range heads_;
};

/// dk and dv of the keys that the rank owns, at the rows and heads that it holds.
void key_pass(const ModelContext& context, const RowBatch& batch, const Keys& keys,
              const AttentionGradient& g) {
  const Shard& shard = context.model.shard();
  const ModelConfig& c = context.model.config();
  const int64_t group = c.heads / c.kv_heads, T = batch.rows(), H = g.q.heads;
  const Range owned = shard.kv_owned;
  const Queries queries(context.runtime, batch, shard, {owned.begin * group, owned.end * group});
  Buffer<float> q_room, dout_room, lse_room, delta_room;
  const Heads<const float> q = queries.gather(g.q, q_room),
                           dout = queries.gather(g.dout, dout_room);
  const Heads<const float> lse = queries.gather({g.lse, T, H, 1}, lse_room);
  const Heads<const float> delta = queries.gather({g.delta, T, H, 1}, delta_room);
  for (const Heads<float>& d : {g.dk, g.dv}) {
    for (int64_t r = 0; r < T; ++r) std::fill_n(d.at(r, 0), d.heads * d.dim, 0.0f);
  }
  if (owned.size() == 0) return;
  const int64_t first = owned.begin - shard.kv_heads.begin;
  const auto of_owned = [&](auto all) {
    all.data += first * all.dim;
    all.heads = owned.size();
    return all;
  };
  std::vector<AttentionBackwardSample> samples;
  for (size_t i = 0; i < batch.chunks.size(); ++i) {
    const Range rows = batch.chunks[i], all = sample_rows(batch, i);
    if (rows.size() == 0) continue;
    AttentionBackwardSample& s = samples.emplace_back();
    const int64_t position = batch.positions[static_cast<size_t>(rows.begin)];
    s.queries = all;
    s.k = of_owned(rows_of(keys.k, all));
    s.v = of_owned(rows_of(keys.v, all));
    s.keys = {position, position + rows.size()};
    s.dk_row = rows.begin;
  }
  context.runtime.run(&KernelSet::attention_backward, {.samples = samples,
                                                       .groups = {owned.begin * group, group},
                                                       .q = q,
                                                       .dout = dout,
                                                       .lse = lse.data,
                                                       .delta = delta.data,
                                                       .dq = {},
                                                       .dk = of_owned(g.dk),
                                                       .dv = of_owned(g.dv)});
}

}  // namespace

void attention_backward_apart(const ModelContext& context, const RowBatch& batch,
                              const LayerActivations& a, const AttentionGradient& g) {
  const Keys keys = all_keys(batch, a, g);
  query_pass(context, batch, keys, g);
  key_pass(context, batch, keys, g);
}

}  // namespace rlreplay::engine
