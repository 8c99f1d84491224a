#include <vector>

#include "src/engine/attention_apart.h"
#include "src/engine/layer.h"
#include "src/engine/layer_events.h"
#include "src/engine/parallel.h"

namespace rlreplay::engine {
namespace {

using kernels::Heads;
using kernels::KernelSet;
using kernels::Matrix;

std::vector<kernels::AttentionBackwardSample> backward_samples(const RowBatch& batch,
                                                               Heads<const float> k,
                                                               Heads<const float> v) {
  std::vector<kernels::AttentionBackwardSample> out;
  for (const kernels::Range& rows : batch.chunks) {
    if (rows.size() == 0) continue;
    kernels::AttentionBackwardSample& s = out.emplace_back();
    s.queries = rows;
    s.k = {k.at(rows.begin, 0), rows.size(), k.heads, k.dim, k.stride};
    s.v = {v.at(rows.begin, 0), rows.size(), v.heads, v.dim, v.stride};
    s.keys = {0, rows.size()};
    s.dk_row = rows.begin;
  }
  return out;
}

}  // namespace

void LayerScratch::resize(const Model& model, int64_t rows, int64_t stream_rows) {
  const ModelConfig& c = model.config();
  const Shard& shard = model.shard();
  const int64_t H = shard.heads.size(), G = shard.kv_heads.size(), F = shard.intermediate.size();
  const auto n = [&](int64_t width) { return static_cast<size_t>(rows * width); };
  dact.resize(n(F));
  dgate_up.resize(n(2 * F));
  dh.resize(static_cast<size_t>(stream_rows * c.hidden));
  dmiddle.resize(static_cast<size_t>(stream_rows * c.hidden));
  dattention.resize(n(H * c.head_dim));
  delta.resize(n(H));
  dqkv.resize(n((H + 2 * G) * c.head_dim));
}

void layer_backward(const ModelContext& context, int64_t layer, const RowBatch& batch,
                    const LayerActivations& a, Matrix<const float> dout, LayerScratch& s,
                    Gradients& gradients, Matrix<float> dx) {
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
  const LayerEvents emit(context, layer, batch, Phase::kBackward);
  const auto product = [&](Matrix<const float> dy, const kernels::PackedWeight& w,
                           const kernels::DotOrder& order, Matrix<float> result) {
    runtime.run(&KernelSet::matmul, {dy, &w, &order, nullptr, {}, result});
  };
  const auto weight_gradient = [&](Matrix<const float> dy, Matrix<const float> x,
                                   std::initializer_list<int> parameters) {
    runtime.run(&KernelSet::matmul_tokens, gradients.product(dy, x, batch.leaves, parameters));
  };

  // Down, swiglu, gate and up: dh = d(loss)/d(h2).
  const Matrix<float> dact{s.dact.data(), T, F}, dgate_up{s.dgate_up.data(), T, 2 * F};
  const Matrix<const float> all_dout = whole_stream(runtime, dout, T, s.gathered);
  product(all_dout, packed.down_dx, orders.hidden, dact);
  weight_gradient(all_dout, {a.act.data(), T, F}, {p.down});
  emit(Op::kDown, "dx", dact);
  runtime.run(&KernelSet::swiglu_backward, {{a.gate_up.data(), T, F, 2 * F},
                                            {a.gate_up.data() + F, T, F, 2 * F},
                                            dact,
                                            {dgate_up.data, T, F, 2 * F},
                                            {dgate_up.data + F, T, F, 2 * F}});
  emit(Op::kSwiGlu, "dgate", {dgate_up.data, T, F, 2 * F});
  emit(Op::kSwiGlu, "dup", {dgate_up.data + F, T, F, 2 * F});
  const Matrix<float> dh{s.dh.data(), S, C}, dmiddle{s.dmiddle.data(), S, C};
  row_parallel(runtime, dgate_up, packed.gate_up_dx, orders.gate_up_dx, {}, dh, own);
  weight_gradient(dgate_up, {a.h2.data(), T, C}, {p.gate, p.up});
  emit.stream(Op::kGateUp, "dx", dh);

  // Post norm; the residual past it adds dout.
  runtime.run(&KernelSet::rms_norm_backward, {.x = Matrix<const float>(a.middle.data(), S, C),
                                              .w = model.weight(p.post_norm),
                                              .r = a.r2.data(),
                                              .dy = Matrix<const float>(dh),
                                              .residual = dout,
                                              .dx = dmiddle,
                                              .dw = gradients.token_sum({p.post_norm})});
  emit.stream(Op::kPostNorm, "dx", dmiddle);

  // Attention's output product.
  const Matrix<float> dattention{s.dattention.data(), T, H * D};
  const Matrix<const float> all_dmiddle = whole_stream(runtime, dmiddle, T, s.gathered);
  product(all_dmiddle, packed.o_dx, orders.hidden, dattention);
  weight_gradient(all_dmiddle, {a.attention.data(), T, H * D}, {p.o});
  emit(Op::kOutput, "dx", dattention);

  // Attention: dq, dk and dv are columns of dqkv, H D, G D and G D wide, and everything up to the
  // norms of the heads works in place on them.
  const Matrix<float> dqkv{s.dqkv.data(), T, width};
  const Heads<float> dq{dqkv.data, T, H, D, width};
  const Heads<float> dk{dqkv.data + H * D, T, G, D, width};
  const Heads<float> dv{dqkv.data + (H + G) * D, T, G, D, width};
  const Heads<const float> q{a.q.data(), T, H, D}, k{a.k.data(), T, G, D};
  const Heads<const float> v{a.qkv.data() + (H + G) * D, T, G, D, width};
  const Heads<const float> dmixed{dattention.data, T, H, D};
  runtime.run(&KernelSet::attention_delta,
              {dmixed, Heads<const float>{a.attention.data(), T, H, D}, s.delta.data()});
  emit(Op::kAttention, "delta", {s.delta.data(), T, H});
  const AttentionGradient attention{q, dmixed, a.lse.data(), s.delta.data(), k, v, dq, dk, dv};
  if (batch.context || shard.replicas) {
    attention_backward_apart(context, batch, a, attention);
  } else {
    const auto samples = backward_samples(batch, k, v);
    const kernels::HeadGroups groups{shard.heads.begin, c.heads / c.kv_heads};
    runtime.run(&KernelSet::attention_backward,
                {samples, groups, q, dmixed, a.lse.data(), s.delta.data(), dq, dk, dv});
  }
  const Matrix<float> dq_rows{dq.data, T, H * D, width}, dk_rows{dk.data, T, G * D, width};
  emit(Op::kAttention, "dq", dq_rows);
  emit(Op::kAttention, "dk", dk_rows);
  emit(Op::kAttention, "dv", {dv.data, T, G * D, width});

  // Positions, then the norm of every head: what layer_forward did, backwards.
  const auto rotate_back = [&](Heads<float> g) {
    runtime.run(&KernelSet::rotary,
                {g, batch.positions.data(), context.rotary.cos, context.rotary.sin, true, g});
  };
  rotate_back(dq);
  rotate_back(dk);
  emit(Op::kRotary, "dq", dq_rows);
  emit(Op::kRotary, "dk", dk_rows);
  if (c.qk_norm) {
    const auto norm_back = [&](const float* raw, Heads<float> g, int weight, const float* r,
                               kernels::Range counted) {
      runtime.run(&KernelSet::rms_norm_backward, {.x = {raw, T, g.heads, D, width},
                                                  .w = model.weight(weight),
                                                  .r = r,
                                                  .dy = g,
                                                  .residual = {},
                                                  .dx = g,
                                                  .dw_heads = counted,
                                                  .dw = gradients.token_sum({weight})});
    };
    const int64_t held = shard.kv_heads.begin;
    norm_back(a.qkv.data(), dq, p.q_norm, a.q_r.data(), {0, H});
    norm_back(a.qkv.data() + H * D, dk, p.k_norm, a.k_r.data(),
              {shard.kv_owned.begin - held, shard.kv_owned.end - held});
    emit(Op::kQkNorm, "dq", dq_rows);
    emit(Op::kQkNorm, "dk", dk_rows);
  }
  // Biases, the product, the input norm; the residual past them adds dmiddle.
  if (c.qkv_bias) {
    runtime.run(&KernelSet::bias_tokens,
                {dqkv, nullptr, gradients.token_sum({p.q_bias, p.k_bias, p.v_bias})});
  }
  row_parallel(runtime, dqkv, packed.qkv_dx, orders.qkv_dx, {}, dh, own);
  weight_gradient(dqkv, {a.h.data(), T, C}, {p.q, p.k, p.v});
  emit.stream(Op::kQkv, "dx", dh);
  runtime.run(&KernelSet::rms_norm_backward, {.x = Matrix<const float>(a.x.data(), S, C),
                                              .w = model.weight(p.input_norm),
                                              .r = a.r.data(),
                                              .dy = Matrix<const float>(dh),
                                              .residual = Matrix<const float>(dmiddle),
                                              .dx = dx,
                                              .dw = gradients.token_sum({p.input_norm})});
  emit.stream(Op::kInputNorm, "dx", dx);
}

}  // namespace rlreplay::engine
