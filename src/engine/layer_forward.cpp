#include <cstring>
#include <vector>

#include "src/base/error.h"
#include "src/engine/layer.h"
#include "src/engine/layer_events.h"
#include "src/engine/parallel.h"

namespace rlreplay::engine {
namespace {

using kernels::Heads;
using kernels::KernelSet;
using kernels::Matrix;

/// Copies the chunk's new keys or values to their positions in the cache.
void append(Heads<const float> rows, kernels::Range chunk, int64_t position, Heads<float> cache) {
  const auto bytes = static_cast<size_t>(cache.heads * cache.dim) * sizeof(float);
  for (int64_t i = 0; i < chunk.size(); ++i) {
    std::memcpy(cache.at(position + i, 0), rows.at(chunk.begin + i, 0), bytes);
  }
}

std::vector<kernels::AttentionSample> attention_samples(int64_t layer, const RowBatch& batch,
                                                        Heads<const float> k, Heads<const float> v,
                                                        std::span<KvCache* const> caches) {
  std::vector<kernels::AttentionSample> out;
  for (size_t i = 0; i < batch.chunks.size(); ++i) {
    const kernels::Range rows = batch.chunks[i];
    if (rows.size() == 0) continue;
    kernels::AttentionSample& s = out.emplace_back();
    s.queries = rows;
    s.position = batch.positions[static_cast<size_t>(rows.begin)];
    if (batch.context) {
      const kernels::Range all = batch.context->samples[i / batch.chunks_a_sample];
      s.k = {k.at(all.begin, 0), all.size(), k.heads, k.dim, k.stride};
      s.v = {v.at(all.begin, 0), all.size(), v.heads, v.dim, v.stride};
    } else if (caches.empty()) {
      check(s.position == 0, "without a cache a chunk must be a whole sample");
      s.k = {k.at(rows.begin, 0), rows.size(), k.heads, k.dim, k.stride};
      s.v = {v.at(rows.begin, 0), rows.size(), v.heads, v.dim, v.stride};
    } else {
      const Heads<float> keys = caches[i]->keys(layer), values = caches[i]->values(layer);
      append(k, rows, s.position, keys);
      append(v, rows, s.position, values);
      s.k = keys;
      s.v = values;
    }
  }
  return out;
}

}  // namespace

void LayerActivations::resize(const Model& model, int64_t rows, int64_t stream_rows) {
  const ModelConfig& c = model.config();
  const Shard& shard = model.shard();
  const int64_t H = shard.heads.size(), G = shard.kv_heads.size(), F = shard.intermediate.size();
  const auto n = [&](int64_t width) { return static_cast<size_t>(rows * width); };
  const auto of_stream = [&](int64_t width) { return static_cast<size_t>(stream_rows * width); };
  h.resize(n(c.hidden));
  r.resize(of_stream(1));
  qkv.resize(n((H + 2 * G) * c.head_dim));
  q.resize(n(H * c.head_dim));
  k.resize(n(G * c.head_dim));
  q_r.resize(n(H));
  k_r.resize(n(G));
  attention.resize(n(H * c.head_dim));
  lse.resize(n(H));
  middle.resize(of_stream(c.hidden));
  h2.resize(n(c.hidden));
  r2.resize(of_stream(1));
  gate_up.resize(n(2 * F));
  act.resize(n(F));
}

void LayerActivations::release() {
  for (Buffer<float>* b : {&h, &r, &qkv, &q, &k, &q_r, &k_r, &attention, &lse, &all_k, &all_v,
                           &middle, &h2, &r2, &gate_up, &act}) {
    *b = Buffer<float>();
  }
}

void layer_forward(const ModelContext& context, int64_t layer, const RowBatch& batch,
                   std::span<KvCache* const> caches, LayerActivations& a, Matrix<float> out) {
  const Runtime& runtime = context.runtime;
  const Model& model = context.model;
  const ModelConfig& c = model.config();
  const LayerParameters& p = model.parameters().layers[static_cast<size_t>(layer)];
  const PackedLayer& packed = model.packed(layer);
  const Orders& orders = model.orders();
  const Shard& shard = model.shard();
  const int64_t T = batch.rows(), C = c.hidden, F = shard.intermediate.size(), D = c.head_dim;
  const int64_t H = shard.heads.size(), G = shard.kv_heads.size(), width = (H + 2 * G) * D;
  const kernels::Range own = stream_rows(runtime, T);
  const int64_t S = own.size();
  const auto eps = static_cast<float>(c.norm_eps);
  const LayerEvents emit(context, layer, batch, batch.phase);

  // Input norm: h = x r w.
  const Matrix<float> x{a.x.data(), S, C}, h{a.h.data(), T, C}, own_h{h.row(own.begin), S, C};
  runtime.run(&KernelSet::rms_norm,
              {Matrix<const float>(x), model.weight(p.input_norm), eps, own_h, a.r.data()});
  emit.stream(Op::kInputNorm, "y", own_h);
  emit.stream(Op::kInputNorm, "r", {a.r.data(), S, 1});
  gather_stream(runtime, h);

  // Queries, keys and values in one product: their weights are packed side by side.
  const Matrix<float> qkv{a.qkv.data(), T, width};
  runtime.run(&KernelSet::matmul,
              {h, &packed.qkv, &orders.hidden, model.weight_or_null(p.q_bias), {}, qkv});
  const Heads<float> q_raw{a.qkv.data(), T, H, D, width};
  const Heads<float> k_raw{a.qkv.data() + H * D, T, G, D, width};
  const Heads<float> v{a.qkv.data() + (H + G) * D, T, G, D, width};
  emit(Op::kQkv, "q", {a.qkv.data(), T, H * D, width});
  emit(Op::kQkv, "k", {a.qkv.data() + H * D, T, G * D, width});
  emit(Op::kQkv, "v", {a.qkv.data() + (H + G) * D, T, G * D, width});

  // Norm of every head (Qwen3), then positions. a.qkv stays as it is: the backward reads it.
  const Heads<float> q{a.q.data(), T, H, D}, k{a.k.data(), T, G, D};
  if (c.qk_norm) {
    runtime.run(&KernelSet::rms_norm, {q_raw, model.weight(p.q_norm), eps, q, a.q_r.data()});
    runtime.run(&KernelSet::rms_norm, {k_raw, model.weight(p.k_norm), eps, k, a.k_r.data()});
    emit(Op::kQkNorm, "q", {a.q.data(), T, H * D});
    emit(Op::kQkNorm, "k", {a.k.data(), T, G * D});
    emit(Op::kQkNorm, "q_r", {a.q_r.data(), T, H});
    emit(Op::kQkNorm, "k_r", {a.k_r.data(), T, G});
  }
  const RotaryView& rotary = context.rotary;
  const auto rotate = [&](Heads<const float> from, Heads<float> to) {
    runtime.run(&KernelSet::rotary,
                {from, batch.positions.data(), rotary.cos, rotary.sin, false, to});
  };
  rotate(c.qk_norm ? q : q_raw, q);
  rotate(c.qk_norm ? k : k_raw, k);
  emit(Op::kRotary, "q", {a.q.data(), T, H * D});
  emit(Op::kRotary, "k", {a.k.data(), T, G * D});

  // Attention within each sample; with caches over what was cached too.
  const Matrix<float> mixed{a.attention.data(), T, H * D};
  Heads<const float> all_k = k, all_v = v;
  if (batch.context) {
    const auto all = [&](Heads<const float> of, Buffer<float>& room) -> Heads<const float> {
      const Matrix<float> m =
          gather_context(runtime, *batch.context, {of.data, T, G * D, of.stride}, room);
      return {m.data, m.rows, G, D};
    };
    all_k = all(k, a.all_k);
    all_v = all(v, a.all_v);
  }
  const auto samples = attention_samples(layer, batch, all_k, all_v, caches);
  const kernels::HeadGroups groups{shard.heads.begin, c.heads / c.kv_heads};
  runtime.run(&KernelSet::attention,
              {samples, groups, q, Heads<float>{a.attention.data(), T, H, D}, a.lse.data()});
  emit(Op::kAttention, "out", mixed);
  emit(Op::kAttention, "lse", {a.lse.data(), T, H});

  // middle = x + attention W_o, h2 its norm.
  const Matrix<float> middle{a.middle.data(), S, C}, h2{a.h2.data(), T, C};
  const Matrix<float> own_h2{h2.row(own.begin), S, C};
  row_parallel(runtime, mixed, packed.o, orders.output, x, middle, own);
  emit.stream(Op::kOutput, "y", middle);
  runtime.run(&KernelSet::rms_norm,
              {Matrix<const float>(middle), model.weight(p.post_norm), eps, own_h2, a.r2.data()});
  emit.stream(Op::kPostNorm, "y", own_h2);
  emit.stream(Op::kPostNorm, "r", {a.r2.data(), S, 1});
  gather_stream(runtime, h2);

  // out = middle + (silu(gate) * up) W_down.
  const Matrix<float> gate_up{a.gate_up.data(), T, 2 * F}, act{a.act.data(), T, F};
  runtime.run(&KernelSet::matmul, {h2, &packed.gate_up, &orders.hidden, nullptr, {}, gate_up});
  emit(Op::kGateUp, "gate", {gate_up.data, T, F, 2 * F});
  emit(Op::kGateUp, "up", {gate_up.data + F, T, F, 2 * F});
  runtime.run(&KernelSet::swiglu,
              {{gate_up.data, T, F, 2 * F}, {gate_up.data + F, T, F, 2 * F}, act});
  emit(Op::kSwiGlu, "y", act);
  row_parallel(runtime, act, packed.down, orders.down, middle, out, own);
  emit.stream(Op::kDown, "y", out);
}

}  // namespace rlreplay::engine
