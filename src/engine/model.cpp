#include "src/engine/model.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace rlreplay::engine {
namespace {

using kernels::DotOrder;
using kernels::Inner;
using kernels::Range;

std::vector<Range> axis(int64_t origin, int64_t n, int64_t segments) {
  std::vector<Range> out;
  for (int64_t s = 0; s < segments; ++s) {
    const Range r = kernels::segment(n, segments, s);
    out.push_back({origin + r.begin, origin + r.end});
  }
  return out;
}

/// The kv heads of each attention segment: kv head j goes where query head j * group goes.
std::vector<Range> kv_axis(const ModelConfig& c, int64_t origin, int64_t segments) {
  const int64_t group = c.heads / c.kv_heads;
  const int64_t heads_a_segment = c.heads / segments;
  std::vector<Range> out;
  for (int64_t s = 0; s < segments; ++s) {
    const auto first = [&](int64_t i) { return (i * heads_a_segment + group - 1) / group; };
    out.push_back({origin + first(s) * c.head_dim, origin + first(s + 1) * c.head_dim});
  }
  return out;
}

DotOrder qkv_dx_order(const ModelConfig& c) {
  const int64_t segments = kernels::attention_segments(c.heads);
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  const std::array axes{axis(0, q, segments), kv_axis(c, q, segments),
                        kv_axis(c, q + kv, segments)};
  return kernels::fused_dot_order(axes);
}

DotOrder gate_up_dx_order(int64_t f) {
  const std::array axes{axis(0, f, kernels::kAxisSegments), axis(f, f, kernels::kAxisSegments)};
  return kernels::fused_dot_order(axes);
}

}  // namespace

Orders::Orders(const ModelConfig& c)
    : hidden(kernels::dot_order(c.hidden, 1)),
      output(kernels::dot_order(c.heads * c.head_dim, kernels::attention_segments(c.heads))),
      down(kernels::dot_order(c.intermediate, kernels::kAxisSegments)),
      qkv_dx(qkv_dx_order(c)),
      gate_up_dx(gate_up_dx_order(c.intermediate)),
      head_dx(kernels::dot_order(c.vocab, kernels::kAxisSegments)),
      vocab_segments(axis(0, c.vocab, kernels::kAxisSegments)) {}

Model::Model(const ModelConfig& config)
    : config_(config),
      parameters_(make_parameters(config)),
      orders_(config),
      weights_(static_cast<size_t>(parameters_.elements)),
      packed_(static_cast<size_t>(config.layers)) {
  std::fill_n(weights_.data(), weights_.size(), 0.0f);
}

void Model::pack(const Runtime& runtime, bool backward) {
  const auto pack = [&](std::initializer_list<int> parameters, kernels::PackedWeight& forward_out,
                        kernels::PackedWeight& backward_out) {
    std::vector<kernels::Matrix<const float>> parts;
    for (int p : parameters) parts.push_back(matrix(p));
    runtime.kernels.pack_weight({parts, Inner::kColumns}, forward_out, runtime.pool);
    if (backward) runtime.kernels.pack_weight({parts, Inner::kRows}, backward_out, runtime.pool);
  };
  for (size_t l = 0; l < packed_.size(); ++l) {
    const LayerParameters& p = parameters_.layers[l];
    PackedLayer& out = packed_[l];
    pack({p.q, p.k, p.v}, out.qkv, out.qkv_dx);
    pack({p.o}, out.o, out.o_dx);
    pack({p.gate, p.up}, out.gate_up, out.gate_up_dx);
    pack({p.down}, out.down, out.down_dx);
  }
  pack({parameters_.head}, head_, head_dx_);
}

}  // namespace rlreplay::engine
