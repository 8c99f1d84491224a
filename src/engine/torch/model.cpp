#include "src/engine/torch/model.h"

#include <cmath>

#include "src/base/error.h"
#include "src/engine/torch/convert.h"

namespace rlreplay::aten {
namespace {

at::Tensor inverse_frequencies(const ModelConfig& c, Rope rope) {
  const auto exponent = at::arange(0, c.head_dim, 2, at::kDouble) / static_cast<double>(c.head_dim);
  auto inverse = 1.0 / at::pow(c.rope_theta, exponent);
  if (rope == Rope::kHf) inverse = inverse.to(at::kFloat).to(at::kDouble);
  const RopeScaling& s = c.rope_scaling;
  if (s.llama3) {
    const auto wavelength = 2 * M_PI / inverse;
    const double original = static_cast<double>(s.original_max_positions);
    const auto smooth =
        (original / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
    const auto blended = (1 - smooth) * inverse / s.factor + smooth * inverse;
    inverse = at::where(wavelength > original / s.low_freq_factor, inverse / s.factor,
                        at::where(wavelength < original / s.high_freq_factor, inverse, blended));
    if (rope == Rope::kHf) inverse = inverse.to(at::kFloat).to(at::kDouble);
  }
  return inverse;
}

/// The model's weights as leaves of the graph, and its layers as functions of rows.
class Graph {
 public:
  Graph(const ModelInput& in, Precision precision)
      : in_(in), c_(*in.config), type_(scalar_type(precision)) {
    for (const engine::Parameter& p : in.parameters->list) {
      const auto flat = at::from_blob(const_cast<float*>(in.weights.data() + p.offset), {p.size()},
                                      at::TensorOptions(at::kFloat));
      const auto shaped = p.is_vector() ? flat : flat.reshape({p.rows, p.cols});
      weights_.push_back(shaped.to(type_, false, true).requires_grad_(true));
    }
  }

  const at::Tensor& weight(int i) const { return weights_[static_cast<size_t>(i)]; }

  /// [T, C] after the final norm, of all samples one after the other.
  at::Tensor hidden() {
    std::vector<int64_t> ids, positions;
    for (const engine::Sample& s : in_.samples) {
      for (size_t p = 0; p < s.tokens.size(); ++p) {
        ids.push_back(s.tokens[p]);
        positions.push_back(static_cast<int64_t>(p));
      }
    }
    rotary(at::tensor(positions, at::kLong));
    auto x = at::embedding(weight(in_.parameters->embedding), at::tensor(ids, at::kLong));
    for (const engine::LayerParameters& p : in_.parameters->layers) x = layer(x, p);
    return norm(x, in_.parameters->final_norm);
  }

  std::vector<double> gradients() const {
    std::vector<double> out;
    for (const auto& w : weights_) {
      const Array g = w.grad().defined() ? to_array(w.grad()) : to_array(at::zeros_like(w));
      out.insert(out.end(), g.values.begin(), g.values.end());
    }
    return out;
  }

 private:
  void rotary(const at::Tensor& positions) {
    auto angles = positions.to(at::kDouble).unsqueeze(1) * inverse_frequencies(c_, in_.rope);
    if (in_.rope == Rope::kHf) angles = angles.to(at::kFloat).to(at::kDouble);
    angles = at::cat({angles, angles}, 1).unsqueeze(1);
    cos_ = angles.cos().to(type_);
    sin_ = angles.sin().to(type_);
  }
  at::Tensor rotate(const at::Tensor& x) const {
    const auto halves = x.chunk(2, -1);
    return x * cos_ + at::cat({-halves[1], halves[0]}, -1) * sin_;
  }
  at::Tensor norm(const at::Tensor& x, int w) const {
    const auto mean = x.pow(2).mean(-1, true) + c_.norm_eps;
    return x * mean.rsqrt() * weight(w);
  }
  at::Tensor project(const at::Tensor& x, int w, int bias) const {
    return bias < 0 ? at::linear(x, weight(w)) : at::linear(x, weight(w), weight(bias));
  }

  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) const {
    std::vector<at::Tensor> out;
    int64_t first = 0;
    for (const engine::Sample& s : in_.samples) {
      const auto n = static_cast<int64_t>(s.tokens.size());
      const auto rows = [&](const at::Tensor& t) {  // [1, heads, n, D]
        return t.slice(0, first, first + n).transpose(0, 1).unsqueeze(0);
      };
      const int64_t group = c_.heads / c_.kv_heads;
      out.push_back(at::scaled_dot_product_attention(rows(q), rows(k).repeat_interleave(group, 1),
                                                     rows(v).repeat_interleave(group, 1), {}, 0.0,
                                                     true)
                        .squeeze(0)
                        .transpose(0, 1)
                        .reshape({n, c_.heads * c_.head_dim}));
      first += n;
    }
    return at::cat(out, 0);
  }

  at::Tensor layer(const at::Tensor& x, const engine::LayerParameters& p) const {
    const auto h = norm(x, p.input_norm);
    const auto heads = [&](int w, int bias, int64_t n) {
      return project(h, w, bias).reshape({-1, n, c_.head_dim});
    };
    auto q = heads(p.q, p.q_bias, c_.heads);
    auto k = heads(p.k, p.k_bias, c_.kv_heads);
    const auto v = heads(p.v, p.v_bias, c_.kv_heads);
    if (c_.qk_norm) {
      q = norm(q, p.q_norm);
      k = norm(k, p.k_norm);
    }
    const auto middle = x + project(attend(rotate(q), rotate(k), v), p.o, -1);
    const auto h2 = norm(middle, p.post_norm);
    return middle + project(at::silu(project(h2, p.gate, -1)) * project(h2, p.up, -1), p.down, -1);
  }

  const ModelInput& in_;
  const ModelConfig& c_;
  at::ScalarType type_;
  std::vector<at::Tensor> weights_;
  at::Tensor cos_, sin_;
};

/// Everything the objective reads, per response token of all samples.
struct Targets {
  at::Tensor advantage, old, ref, rollout, weight, masked;
};

Targets make_targets(const ModelInput& in, at::ScalarType type) {
  const std::vector<double> weights = engine::sample_weights(in.objective.reducer, in.samples);
  std::vector<double> columns[6];
  for (size_t i = 0; i < in.samples.size(); ++i) {
    const engine::Sample& s = in.samples[i];
    const engine::SampleTargets& t = in.targets[i];
    for (size_t j = 0; j < s.loss_mask.size(); ++j) {
      const bool masked = s.loss_mask[j] == 0;
      columns[0].push_back(static_cast<double>(t.advantages[j]));
      columns[1].push_back(static_cast<double>(t.old_log_probs[j]));
      columns[2].push_back(t.ref_log_probs.empty() ? 0 : static_cast<double>(t.ref_log_probs[j]));
      columns[3].push_back(
          s.rollout_log_probs.empty() ? 0 : static_cast<double>(s.rollout_log_probs[j]));
      columns[4].push_back(masked ? 0 : weights[i]);
      columns[5].push_back(masked ? 1 : 0);
    }
  }
  const auto column = [&](int i) { return at::tensor(columns[i], at::kDouble).to(type); };
  return {column(0), column(1), column(2), column(3), column(4), column(5) != 0};
}

at::Tensor policy_loss(const engine::ObjectiveConfig& o, const Targets& t,
                       const at::Tensor& log_prob) {
  const bool miles = o.dialect == engine::Dialect::kMiles;
  auto advantage = t.advantage;
  auto log_ratio = log_prob - t.old;
  if (miles) {
    const auto bad = at::logical_or(t.masked, at::logical_not(at::isfinite(log_ratio)));
    log_ratio = at::clamp(at::where(bad, at::zeros_like(log_ratio), log_ratio), -20.0, 20.0);
    advantage = at::where(t.masked, at::zeros_like(advantage), advantage);
  }
  at::Tensor loss;
  if (o.policy_loss == engine::PolicyLoss::kPlain) {
    loss = -advantage * log_prob;
  } else {
    const auto ratio = log_ratio.exp();
    const auto bounded = at::clamp(ratio, 1.0 - o.eps_clip, 1.0 + o.eps_clip_high);
    loss = at::maximum(-ratio * advantage, -bounded * advantage);
    if (o.eps_clip_c) {
      const auto limit = -*o.eps_clip_c * advantage;
      loss = at::where(advantage < 0, at::minimum(loss, limit), loss);
    }
  }
  if (!o.tis) return loss;
  return loss * at::clamp((t.old - t.rollout).exp(), o.tis->low, o.tis->high);
}

at::Tensor kl_loss(const engine::ObjectiveConfig& o, const Targets& t, const at::Tensor& log_prob) {
  auto d = log_prob - t.ref;
  if (o.dialect == engine::Dialect::kMiles) d = at::clamp(d, -20.0, 20.0);
  switch (o.kl_loss_type) {
    case engine::KlType::kK1:
      return d;
    case engine::KlType::kK2:
      return d.pow(2) / 2;
    case engine::KlType::kK3:
      return at::expm1(-d) + d;
    case engine::KlType::kLowVar:
      return at::clamp(at::expm1(-d) + d, -10.0, 10.0);
  }
  return d;
}

}  // namespace

ModelOutput run_model(const ModelInput& in, Precision precision) {
  Graph graph(in, precision);
  const auto hidden = graph.hidden();
  std::vector<int64_t> rows, labels;
  int64_t first = 0;
  for (const engine::Sample& s : in.samples) {
    for (size_t p = static_cast<size_t>(s.prompt_length); p < s.tokens.size(); ++p) {
      rows.push_back(first + static_cast<int64_t>(p) - 1);
      labels.push_back(s.tokens[p]);
    }
    first += static_cast<int64_t>(s.tokens.size());
  }
  const double temperature = in.temperature > 0 ? static_cast<double>(in.temperature) : 1.0;
  const auto logits = at::linear(hidden.index_select(0, at::tensor(rows, at::kLong)),
                                 graph.weight(in.parameters->head)) /
                      temperature;
  const auto all = at::log_softmax(logits, -1);
  const auto log_prob = all.gather(1, at::tensor(labels, at::kLong).unsqueeze(1)).squeeze(1);
  const auto entropy = -(all.exp() * all).sum(-1);
  ModelOutput out;
  out.hidden = to_array(hidden).values;
  out.log_probs = to_array(log_prob).values;
  out.entropy = to_array(entropy).values;
  if (in.targets.empty()) return out;

  const engine::ObjectiveConfig& o = in.objective;
  const Targets t = make_targets(in, scalar_type(precision));
  const auto reduce = [&](const at::Tensor& x) { return (x * t.weight).sum(); };
  const auto policy = reduce(policy_loss(o, t, log_prob));
  const auto mean_entropy = reduce(entropy);
  const auto kl = reduce(kl_loss(o, t, log_prob));
  const auto total = policy - o.entropy_coef * mean_entropy + o.kl_loss_coef * kl;
  total.backward();
  out.policy = policy.item<double>();
  out.entropy_mean = mean_entropy.item<double>();
  out.kl = kl.item<double>();
  out.total = total.item<double>();
  out.gradients = graph.gradients();
  return out;
}

}  // namespace rlreplay::aten
