#include <vector>

#include "src/engine/attention_apart.h"
#include "src/engine/layer.h"
#include "src/engine/layer_view.h"

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

/// The operations of a layer in the opposite order, each from what the ones before left in `s`.
struct BackwardPass : LayerView {
  const LayerActivations& a;
  const Matrix<const float> dout;
  LayerScratch& s;
  Gradients& gradients;
  const Matrix<float> dx;

  const Matrix<float> dh{s.dh.data(), S, C}, dmiddle{s.dmiddle.data(), S, C};
  const Matrix<float> dattention{s.dattention.data(), T, H* D};
  // dq, dk and dv are columns of dqkv, H D, G D and G D wide, and everything up to the norms of the
  // heads works in place on them.
  const Matrix<float> dqkv{s.dqkv.data(), T, width};
  const Heads<float> dq{dqkv.data, T, H, D, width};
  const Heads<float> dk{dqkv.data + H * D, T, G, D, width};
  const Heads<float> dv{dqkv.data + (H + G) * D, T, G, D, width};
  const Matrix<float> dq_rows{dq.data, T, H*D, width}, dk_rows{dk.data, T, G*D, width};

  /// Down, swiglu, gate and up: dh = d(loss)/d(h2).
  void mlp() const {
    const Matrix<float> dact{s.dact.data(), T, F}, dgate_up{s.dgate_up.data(), T, 2 * F};
    const Matrix<float> dgate{dgate_up.data, T, F, 2 * F}, dup{dgate.data + F, T, F, 2 * F};
    const Matrix<const float> all_dout = whole_stream(runtime, dout, T, s.gathered);
    product(all_dout, packed.down_dx, dact);
    weight_gradient(all_dout, {a.act.data(), T, F}, {p.down});
    emit(Op::kDown, "dx", dact);
    runtime.run(
        &KernelSet::swiglu_backward,
        {{a.gate_up.data(), T, F, 2 * F}, {a.gate_up.data() + F, T, F, 2 * F}, dact, dgate, dup});
    emit(Op::kSwiGlu, "dgate", dgate);
    emit(Op::kSwiGlu, "dup", dup);
    row_parallel(runtime, dgate_up, packed.gate_up_dx, orders.gate_up_dx, {}, dh, own);
    weight_gradient(dgate_up, {a.h2.data(), T, C}, {p.gate, p.up});
    emit.stream(Op::kGateUp, "dx", dh);
  }

  /// The residual past it adds dout.
  void post_norm() const {
    norm_stream(a.middle, p.post_norm, a.r2, dout, dmiddle);
    emit.stream(Op::kPostNorm, "dx", dmiddle);
  }

  void output() const {
    const Matrix<const float> all_dmiddle = whole_stream(runtime, dmiddle, T, s.gathered);
    product(all_dmiddle, packed.o_dx, dattention);
    weight_gradient(all_dmiddle, {a.attention.data(), T, H * D}, {p.o});
    emit(Op::kOutput, "dx", dattention);
  }

  void attention() const {
    const Heads<const float> q{a.q.data(), T, H, D}, k{a.k.data(), T, G, D};
    const Heads<const float> v{a.qkv.data() + (H + G) * D, T, G, D, width};
    const Heads<const float> dmixed{dattention.data, T, H, D};
    runtime.run(&KernelSet::attention_delta,
                {dmixed, Heads<const float>{a.attention.data(), T, H, D}, s.delta.data()});
    emit(Op::kAttention, "delta", {s.delta.data(), T, H});
    if (batch.context || shard.replicas) {
      attention_backward_apart(context, batch, a,
                               {q, dmixed, a.lse.data(), s.delta.data(), k, v, dq, dk, dv});
    } else {
      const auto samples = backward_samples(batch, k, v);
      runtime.run(&KernelSet::attention_backward,
                  {samples, groups, q, dmixed, a.lse.data(), s.delta.data(), dq, dk, dv});
    }
    emit(Op::kAttention, "dq", dq_rows);
    emit(Op::kAttention, "dk", dk_rows);
    emit(Op::kAttention, "dv", {dv.data, T, G * D, width});
  }

  /// Positions, then the norm of every head: what the forward did, backwards.
  void positions() const {
    rotate_back(dq);
    rotate_back(dk);
    emit(Op::kRotary, "dq", dq_rows);
    emit(Op::kRotary, "dk", dk_rows);
    if (!c.qk_norm) return;
    const int64_t held = shard.kv_heads.begin;
    norm_heads(a.qkv.data(), dq, p.q_norm, a.q_r, {0, H});
    norm_heads(a.qkv.data() + H * D, dk, p.k_norm, a.k_r,
               {shard.kv_owned.begin - held, shard.kv_owned.end - held});
    emit(Op::kQkNorm, "dq", dq_rows);
    emit(Op::kQkNorm, "dk", dk_rows);
  }

  /// Biases, and the product: dh = d(loss)/d(h).
  void queries_keys_values() const {
    if (c.qkv_bias) {
      runtime.run(&KernelSet::bias_tokens,
                  {dqkv, nullptr, gradients.token_sum({p.q_bias, p.k_bias, p.v_bias})});
    }
    row_parallel(runtime, dqkv, packed.qkv_dx, orders.qkv_dx, {}, dh, own);
    weight_gradient(dqkv, {a.h.data(), T, C}, {p.q, p.k, p.v});
    emit.stream(Op::kQkv, "dx", dh);
  }

  /// The residual past it adds dmiddle.
  void input_norm() const {
    norm_stream(a.x, p.input_norm, a.r, dmiddle, dx);
    emit.stream(Op::kInputNorm, "dx", dx);
  }

 private:
  void product(Matrix<const float> dy, const kernels::PackedWeight& w, Matrix<float> y) const {
    runtime.run(
        &KernelSet::matmul,
        {.x = dy, .w = &w, .order = &orders.hidden, .bias = nullptr, .residual = {}, .y = y});
  }

  void weight_gradient(Matrix<const float> dy, Matrix<const float> x,
                       std::initializer_list<int> parameters) const {
    runtime.run(&KernelSet::matmul_tokens, gradients.product(dy, x, batch.leaves, parameters));
  }

  /// Of a norm of the stream's rows `x`, whose output's gradient is dh.
  void norm_stream(const Buffer<float>& x, int weight, const Buffer<float>& r,
                   Matrix<const float> residual, Matrix<float> to) const {
    runtime.run(&KernelSet::rms_norm_backward, {.x = Matrix<const float>(x.data(), S, C),
                                                .w = model.weight(weight),
                                                .r = r.data(),
                                                .dy = Matrix<const float>(dh),
                                                .residual = residual,
                                                .dx = to,
                                                .dw = gradients.token_sum({weight})});
  }

  /// In place on `g`; `counted`: the heads whose weight gradients are this rank's.
  void norm_heads(const float* raw, Heads<float> g, int weight, const Buffer<float>& r,
                  kernels::Range counted) const {
    runtime.run(&KernelSet::rms_norm_backward, {.x = {raw, T, g.heads, D, width},
                                                .w = model.weight(weight),
                                                .r = r.data(),
                                                .dy = g,
                                                .residual = {},
                                                .dx = g,
                                                .dw_heads = counted,
                                                .dw = gradients.token_sum({weight})});
  }

  void rotate_back(Heads<float> g) const {
    runtime.run(&KernelSet::rotary,
                {g, batch.positions.data(), context.rotary.cos, context.rotary.sin, true, g});
  }
};

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
  const BackwardPass pass{{context, layer, batch, Phase::kBackward}, a, dout, s, gradients, dx};
  pass.mlp();
  pass.post_norm();
  pass.output();
  pass.attention();
  pass.positions();
  pass.queries_keys_values();
  pass.input_norm();
}

}  // namespace rlreplay::engine
