#include "src/engine/torch/network.h"

#include <algorithm>
#include <cmath>

namespace rlreplay::aten {
namespace {

/// Under kHf they are binary32 where transformers keeps them: as they are made, and once scaled.
at::Tensor inverse_frequencies(const ModelConfig& c, kernels::Rope rope) {
  const auto exponent = at::arange(0, c.head_dim, 2, at::kDouble) / static_cast<double>(c.head_dim);
  auto inverse = 1.0 / at::pow(c.rope_theta, exponent);
  if (rope == kernels::Rope::kHf) inverse = inverse.to(at::kFloat).to(at::kDouble);
  const RopeScaling& s = c.rope_scaling;
  if (s.llama3) {
    const auto wavelength = 2 * M_PI / inverse;
    const double original = static_cast<double>(s.original_max_positions);
    const auto smooth =
        (original / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
    const auto blended = (1 - smooth) * inverse / s.factor + smooth * inverse;
    inverse = at::where(wavelength > original / s.low_freq_factor, inverse / s.factor,
                        at::where(wavelength < original / s.high_freq_factor, inverse, blended));
    if (rope == kernels::Rope::kHf) inverse = inverse.to(at::kFloat).to(at::kDouble);
  }
  return inverse;
}

at::Tensor integers(std::span<const int64_t> values) {
  return at::tensor(at::ArrayRef<int64_t>(values.data(), values.size()), at::kLong);
}

}  // namespace

Network::Network(const ModelConfig& config, const ParameterTable& parameters,
                 const std::vector<at::Tensor>& weights, kernels::Rope rope, int parts)
    : config_(config), parameters_(parameters), weights_(weights), rope_(rope), parts_(parts) {}

void Network::need_angles(int64_t positions) {
  if (all_cos_.defined() && all_cos_.size(0) >= positions) return;
  auto angles = at::arange(positions, at::kDouble).unsqueeze(1) *
                inverse_frequencies(config_, rope_).unsqueeze(0);
  if (rope_ == kernels::Rope::kHf) angles = angles.to(at::kFloat).to(at::kDouble);
  // A column of the first half is turned by the angle of its partner in the second.
  angles = at::cat({angles, angles}, 1);
  all_cos_ = angles.cos().to(weights_.front().scalar_type());
  all_sin_ = angles.sin().to(weights_.front().scalar_type());
}

at::Tensor Network::rotate(const at::Tensor& x) const {
  const auto halves = x.chunk(2, -1);
  return x * cos_ + at::cat({-halves[1], halves[0]}, -1) * sin_;
}

at::Tensor Network::norm(const at::Tensor& x, int w) const {
  const auto mean = x.pow(2).mean(-1, true) + config_.norm_eps;
  return x * mean.rsqrt() * weight(w);
}

at::Tensor Network::project(const at::Tensor& x, int w, int bias) const {
  return bias < 0 ? at::linear(x, weight(w)) : at::linear(x, weight(w), weight(bias));
}

at::Tensor Network::row_parallel(const at::Tensor& x, int w) const {
  if (parts_ == 1) return project(x, w, -1);
  const auto rows = x.tensor_split(parts_, 1), columns = weight(w).tensor_split(parts_, 1);
  auto sum = at::linear(rows[0], columns[0]);
  for (size_t i = 1; i < rows.size(); ++i) sum = sum + at::linear(rows[i], columns[i]);
  return sum;
}

at::Tensor Network::layer(const at::Tensor& x, int64_t index, const Attend& attend) const {
  const LayerParameters& p = parameters_.layers[static_cast<size_t>(index)];
  const auto h = norm(x, p.input_norm);
  const auto heads = [&](int w, int bias, int64_t n) {
    return project(h, w, bias).reshape({-1, n, config_.head_dim});
  };
  auto q = heads(p.q, p.q_bias, config_.heads);
  auto k = heads(p.k, p.k_bias, config_.kv_heads);
  const auto v = heads(p.v, p.v_bias, config_.kv_heads);
  if (config_.qk_norm) {
    q = norm(q, p.q_norm);
    k = norm(k, p.k_norm);
  }
  const auto middle = x + row_parallel(attend(index, rotate(q), rotate(k), v), p.o);
  const auto h2 = norm(middle, p.post_norm);
  return middle + row_parallel(at::silu(project(h2, p.gate, -1)) * project(h2, p.up, -1), p.down);
}

at::Tensor Network::hidden(std::span<const int64_t> ids, std::span<const int64_t> positions,
                           const Attend& attend) {
  int64_t last = 0;
  for (const int64_t p : positions) last = std::max(last, p);
  need_angles(last + 1);
  const auto rows = integers(positions);
  cos_ = all_cos_.index_select(0, rows).unsqueeze(1);
  sin_ = all_sin_.index_select(0, rows).unsqueeze(1);
  auto x = at::embedding(weight(parameters_.embedding), integers(ids));
  for (int64_t l = 0; l < config_.layers; ++l) x = layer(x, l, attend);
  return norm(x, parameters_.final_norm);
}

at::Tensor Network::logits(const at::Tensor& hidden, double temperature) const {
  const auto logits = at::linear(hidden, weight(parameters_.head));
  return temperature > 0 && temperature != 1 ? logits / temperature : logits;
}

void Packed::add(std::span<const int32_t> tokens) {
  for (size_t p = 0; p < tokens.size(); ++p) {
    ids.push_back(tokens[p]);
    positions.push_back(static_cast<int64_t>(p));
  }
  lengths.push_back(static_cast<int64_t>(tokens.size()));
}

at::Tensor attend_packed(const std::vector<int64_t>& lengths, const at::Tensor& q,
                         const at::Tensor& k, const at::Tensor& v) {
  const int64_t group = q.size(1) / k.size(1);
  std::vector<at::Tensor> out;
  int64_t first = 0;
  for (const int64_t n : lengths) {
    const auto rows = [&](const at::Tensor& t) {  // [1, heads, n, D]
      return t.slice(0, first, first + n).transpose(0, 1).unsqueeze(0);
    };
    // Faster than `enable_gqa`, whose backward sums the groups slowly.
    const auto keys = rows(k).repeat_interleave(group, 1);
    const auto values = rows(v).repeat_interleave(group, 1);
    out.push_back(at::scaled_dot_product_attention(rows(q), keys, values, {}, 0.0, true)
                      .squeeze(0)
                      .transpose(0, 1)
                      .reshape({n, q.size(1) * q.size(2)}));
    first += n;
  }
  return at::cat(out, 0);
}

}  // namespace rlreplay::aten
