#include <cstring>
#include <vector>

#include "src/base/error.h"
#include "src/engine/layer.h"
#include "src/engine/layer_view.h"

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

/// The operations of a layer in order, each from what the ones before left in `a`.
struct ForwardPass : LayerView {
  std::span<KvCache* const> caches;
  LayerActivations& a;

  const Matrix<float> x{a.x.data(), S, C};
  const Matrix<float> middle{a.middle.data(), S, C};
  const Heads<float> q_raw{a.qkv.data(), T, H, D, width};
  const Heads<float> k_raw{a.qkv.data() + H * D, T, G, D, width};
  const Heads<float> v{a.qkv.data() + (H + G) * D, T, G, D, width};
  const Heads<float> q{a.q.data(), T, H, D}, k{a.k.data(), T, G, D};

  void input_norm() const { norm_stream(x, p.input_norm, a.h, a.r, Op::kInputNorm); }

  /// One product: their weights are packed side by side.
  void queries_keys_values() const {
    const Matrix<float> h{a.h.data(), T, C};
    runtime.run(&KernelSet::matmul, {.x = h,
                                     .w = &packed.qkv,
                                     .order = &orders.hidden,
                                     .bias = model.weight_or_null(p.q_bias),
                                     .residual = {},
                                     .y = {a.qkv.data(), T, width}});
    emit(Op::kQkv, "q", {a.qkv.data(), T, H * D, width});
    emit(Op::kQkv, "k", {a.qkv.data() + H * D, T, G * D, width});
    emit(Op::kQkv, "v", {a.qkv.data() + (H + G) * D, T, G * D, width});
  }

  /// Norm of every head (Qwen3), then positions. a.qkv stays as it is: the backward reads it.
  void positions() const {
    if (c.qk_norm) {
      norm_heads(q_raw, p.q_norm, q, a.q_r);
      norm_heads(k_raw, p.k_norm, k, a.k_r);
      emit(Op::kQkNorm, "q", {a.q.data(), T, H * D});
      emit(Op::kQkNorm, "k", {a.k.data(), T, G * D});
      emit(Op::kQkNorm, "q_r", {a.q_r.data(), T, H});
      emit(Op::kQkNorm, "k_r", {a.k_r.data(), T, G});
    }
    rotate(c.qk_norm ? q : q_raw, q);
    rotate(c.qk_norm ? k : k_raw, k);
    emit(Op::kRotary, "q", {a.q.data(), T, H * D});
    emit(Op::kRotary, "k", {a.k.data(), T, G * D});
  }

  /// Within each sample; with caches over what was cached too.
  void attention() const {
    Heads<const float> all_k = k, all_v = v;
    if (batch.context) {
      all_k = all_ranks(k, a.all_k);
      all_v = all_ranks(v, a.all_v);
    }
    const auto samples = attention_samples(layer, batch, all_k, all_v, caches);
    runtime.run(&KernelSet::attention,
                {samples, groups, q, Heads<float>{a.attention.data(), T, H, D}, a.lse.data()});
    emit(Op::kAttention, "out", {a.attention.data(), T, H * D});
    emit(Op::kAttention, "lse", {a.lse.data(), T, H});
  }

  /// middle = x + attention W_o, h2 its norm.
  void output() const {
    const Matrix<float> mixed{a.attention.data(), T, H * D};
    row_parallel(runtime, mixed, packed.o, orders.output, x, middle, own);
    emit.stream(Op::kOutput, "y", middle);
    norm_stream(middle, p.post_norm, a.h2, a.r2, Op::kPostNorm);
  }

  /// out = middle + (silu(gate) * up) W_down.
  void mlp(Matrix<float> out) const {
    const Matrix<float> h2{a.h2.data(), T, C}, act{a.act.data(), T, F};
    const Matrix<float> gate{a.gate_up.data(), T, F, 2 * F}, up{gate.data + F, T, F, 2 * F};
    runtime.run(&KernelSet::matmul, {.x = h2,
                                     .w = &packed.gate_up,
                                     .order = &orders.hidden,
                                     .bias = nullptr,
                                     .residual = {},
                                     .y = {gate.data, T, 2 * F}});
    emit(Op::kGateUp, "gate", gate);
    emit(Op::kGateUp, "up", up);
    runtime.run(&KernelSet::swiglu, {gate, up, act});
    emit(Op::kSwiGlu, "y", act);
    row_parallel(runtime, act, packed.down, orders.down, middle, out, own);
    emit.stream(Op::kDown, "y", out);
  }

 private:
  /// `to` = of r w, the stream's rows gathered over ranks.
  void norm_stream(Matrix<const float> of, int weight, Buffer<float>& to, Buffer<float>& r,
                   Op op) const {
    const Matrix<float> all{to.data(), T, C}, held{all.row(own.begin), S, C};
    runtime.run(&KernelSet::rms_norm, {of, model.weight(weight), eps(), held, r.data()});
    emit.stream(op, "y", held);
    emit.stream(op, "r", {r.data(), S, 1});
    gather_stream(runtime, all);
  }

  void norm_heads(Heads<const float> raw, int weight, Heads<float> to, Buffer<float>& r) const {
    runtime.run(&KernelSet::rms_norm, {raw, model.weight(weight), eps(), to, r.data()});
  }

  void rotate(Heads<const float> from, Heads<float> to) const {
    runtime.run(&KernelSet::rotary,
                {from, batch.positions.data(), context.rotary.cos, context.rotary.sin, false, to});
  }

  /// Keys or values of all ranks of context parallelism.
  Heads<const float> all_ranks(Heads<const float> held, Buffer<float>& room) const {
    const Matrix<float> all =
        gather_context(runtime, *batch.context, {held.data, T, G * D, held.stride}, room);
    return {all.data, all.rows, G, D};
  }

  float eps() const { return static_cast<float>(c.norm_eps); }
};

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
  const ForwardPass pass{{context, layer, batch, batch.phase}, caches, a};
  pass.input_norm();
  pass.queries_keys_values();
  pass.positions();
  pass.attention();
  pass.output();
  pass.mlp(out);
}

}  // namespace rlreplay::engine
