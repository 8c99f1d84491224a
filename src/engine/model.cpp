#include "src/engine/model.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace rlreplay::engine {
namespace {

using kernels::DotOrder;
using kernels::Inner;
using kernels::Range;

/// Segments [held.begin, held.end) of `segments` over n elements, in columns that begin with the
/// first of them, which stands at `origin`.
std::vector<Range> axis(int64_t origin, int64_t n, int64_t segments, Range held) {
  const int64_t first = kernels::segment(n, segments, held.begin).begin;
  std::vector<Range> out;
  for (int64_t s = held.begin; s < held.end; ++s) {
    const Range r = kernels::segment(n, segments, s);
    out.push_back({origin + r.begin - first, origin + r.end - first});
  }
  return out;
}

/// The kv heads of each attention segment: kv head j goes where query head j * group goes. Those
/// that the rank holds for other ranks' segments are in none.
std::vector<Range> kv_axis(const ModelConfig& c, const Shard& shard, int64_t origin) {
  const int64_t group = c.heads / c.kv_heads;
  const int64_t heads_a_segment = c.heads / kernels::attention_segments(c.heads);
  const int64_t held = shard.kv_heads.begin;
  std::vector<Range> out;
  for (int64_t s = shard.query_segments.begin; s < shard.query_segments.end; ++s) {
    const auto first = [&](int64_t i) {
      return kernels::ceil_div(i * heads_a_segment, group) - held;
    };
    out.push_back({origin + first(s) * c.head_dim, origin + first(s + 1) * c.head_dim});
  }
  return out;
}

DotOrder qkv_dx_order(const ModelConfig& c, const Shard& shard) {
  const int64_t segments = kernels::attention_segments(c.heads);
  const int64_t q = shard.heads.size() * c.head_dim, kv = shard.kv_heads.size() * c.head_dim;
  const std::array axes{axis(0, c.heads * c.head_dim, segments, shard.query_segments),
                        kv_axis(c, shard, q), kv_axis(c, shard, q + kv)};
  return kernels::fused_dot_order(axes);
}

DotOrder gate_up_dx_order(const ModelConfig& c, const Shard& shard) {
  const int64_t f = c.intermediate, held = shard.intermediate.size();
  const std::array axes{axis(0, f, kernels::kAxisSegments, shard.axis_segments),
                        axis(held, f, kernels::kAxisSegments, shard.axis_segments)};
  return kernels::fused_dot_order(axes);
}

DotOrder part(int64_t k, int64_t segments, Range held) {
  return kernels::dot_order(k, segments).part(held.begin, held.size());
}

}  // namespace

Orders::Orders(const ModelConfig& c, const Shard& s)
    : hidden(kernels::dot_order(c.hidden, 1)),
      output(part(c.heads * c.head_dim, kernels::attention_segments(c.heads), s.query_segments)),
      down(part(c.intermediate, kernels::kAxisSegments, s.axis_segments)),
      qkv_dx(qkv_dx_order(c, s)),
      gate_up_dx(gate_up_dx_order(c, s)),
      head_dx(part(c.vocab, kernels::kAxisSegments, s.axis_segments)),
      vocab_segments(axis(0, c.vocab, kernels::kAxisSegments, s.axis_segments)) {}

Model::Model(const ModelConfig& config) : Model(config, whole_shard(config), {}) {}

Model::Model(const ModelConfig& config, const Shard& shard, const RankPlace& place)
    : config_(config),
      shard_(shard),
      parameters_(shard_parameters(config, shard, place)),
      orders_(config, shard),
      weights_(static_cast<size_t>(parameters_.table.elements)),
      packed_(static_cast<size_t>(shard.layer_count())) {
  std::fill_n(weights_.data(), weights_.size(), 0.0f);
}

void Model::pack(const Runtime& runtime, PackedFor passes) {
  const bool backward = passes == PackedFor::kTraining;
  const auto pack = [&](std::initializer_list<int> parameters, kernels::PackedWeight& forward_out,
                        kernels::PackedWeight& backward_out) {
    std::vector<kernels::Matrix<const float>> parts;
    for (int p : parameters) parts.push_back(matrix(p));
    runtime.kernels.pack_weight({parts, Inner::kColumns}, forward_out, runtime.pool);
    if (backward) runtime.kernels.pack_weight({parts, Inner::kRows}, backward_out, runtime.pool);
  };
  for (size_t l = 0; l < packed_.size(); ++l) {
    const LayerParameters& p = parameters().layers[l];
    PackedLayer& out = packed_[l];
    pack({p.q, p.k, p.v}, out.qkv, out.qkv_dx);
    pack({p.o}, out.o, out.o_dx);
    pack({p.gate, p.up}, out.gate_up, out.gate_up_dx);
    pack({p.down}, out.down, out.down_dx);
  }
  if (shard_.last) pack({parameters().head}, head_, head_dx_);
}

}  // namespace rlreplay::engine
