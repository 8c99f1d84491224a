#include "src/engine/torch/run_model.h"

#include "src/engine/torch/convert.h"
#include "src/engine/torch/network.h"
#include "src/engine/torch/objective.h"
#include "src/engine/torch/scores.h"
#include "src/objective/batch_objective.h"

namespace rlreplay::aten {
namespace {

/// The model's weights as leaves of the graph.
std::vector<at::Tensor> make_weights(const ModelInput& in, Precision precision) {
  std::vector<at::Tensor> out;
  for (const Parameter& p : in.parameters->list) {
    const auto flat = at::from_blob(const_cast<float*>(in.weights.data() + p.offset), {p.size()},
                                    at::TensorOptions(at::kFloat));
    const auto shaped = p.is_vector() ? flat : flat.reshape({p.rows, p.cols});
    out.push_back(shaped.to(scalar_type(precision), false, true).requires_grad_(true));
  }
  return out;
}

std::vector<double> gradients(const std::vector<at::Tensor>& weights) {
  std::vector<double> out;
  for (const auto& w : weights) {
    const Array g = w.grad().defined() ? to_array(w.grad()) : to_array(at::zeros_like(w));
    out.insert(out.end(), g.values.begin(), g.values.end());
  }
  return out;
}

}  // namespace

ModelOutput run_model(const ModelInput& in, Precision precision) {
  const std::vector<at::Tensor> weights = make_weights(in, precision);
  Network network(*in.config, *in.parameters, weights, in.rope);
  const auto hidden = hidden_of(network, in.samples);
  const RowScores scored =
      score_rows(network, hidden, in.samples, static_cast<double>(in.temperature), true);
  ModelOutput out;
  out.hidden = to_array(hidden).values;
  out.log_probs = to_array(scored.log_prob).values;
  out.entropy = to_array(scored.entropy).values;
  if (in.targets.empty()) return out;

  const Objective objective = make_objective(
      in.objective, in.samples, in.targets,
      engine::sample_weights(in.objective.reducer, in.samples), scored.log_prob, scored.entropy);
  objective.total.backward();
  out.policy = objective.policy_loss.item<double>();
  out.entropy_mean = objective.entropy_loss.item<double>();
  out.kl = objective.kl_loss.item<double>();
  out.total = objective.total.item<double>();
  out.gradients = gradients(weights);
  return out;
}

}  // namespace rlreplay::aten
