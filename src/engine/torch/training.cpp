#include "src/engine/torch/training.h"

#include <algorithm>

#include <c10/core/GradMode.h>

#include "src/base/error.h"
#include "src/engine/schedule.h"
#include "src/engine/step_events.h"
#include "src/engine/torch/objective.h"
#include "src/engine/transformer.h"
#include "src/objective/check_batch.h"

namespace rlreplay::aten {
namespace {

using engine::Op;
using engine::Phase;
using engine::TokenTerms;

std::vector<float> floats(const at::Tensor& tensor) {
  const auto values = tensor.detach().to(at::kFloat).contiguous();
  const float* data = values.const_data_ptr<float>();
  return {data, data + values.numel()};
}

/// The gradient of a score that the objective did not read is zero.
std::vector<float> gradient_of(const at::Tensor& score) {
  return floats(score.grad().defined() ? score.grad() : at::zeros_like(score));
}

void append_terms(std::span<const Sample> samples, const Objective& objective,
                  const RowScores& scores, std::vector<std::vector<TokenTerms>>& out) {
  const auto ratio = floats(objective.ratio), policy = floats(objective.policy);
  const auto kl = floats(objective.kl), total = floats(objective.token_total);
  const auto clipped = floats(objective.clipped);
  const auto c = gradient_of(scores.log_prob), ce = gradient_of(scores.entropy);
  size_t i = 0;
  for (const Sample& s : samples) {
    std::vector<TokenTerms>& terms = out.emplace_back();
    for (int64_t t = 0; t < s.response_length(); ++t, ++i) {
      terms.push_back({ratio[i], policy[i], kl[i], total[i], clipped[i] != 0, -c[i], -ce[i]});
    }
  }
}

/// Shows the scores to the sink, which may change them.
void emit_scores(const engine::Runtime& runtime, std::span<const Sample> samples,
                 const RowScores& scores) {
  if (runtime.sink == nullptr || scores.log_prob.scalar_type() != at::kFloat) return;
  std::vector<uint64_t> ids;
  std::vector<int32_t> positions;
  for (const Sample& s : samples) {
    for (int64_t t = 0; t < s.response_length(); ++t) {
      ids.push_back(s.id);
      positions.push_back(static_cast<int32_t>(s.prompt_length + t));
    }
  }
  const auto emit = [&](std::string_view name, const at::Tensor& values) {
    const at::Tensor plain = values.detach();
    check(plain.is_contiguous(), "scores are one a row");
    runtime.emit({Phase::kForward, -1, Op::kLogProb, name},
                 kernels::Matrix<float>(plain.mutable_data_ptr<float>(), plain.numel(), 1),
                 {ids.data(), positions.data()});
  };
  emit("log_prob", scores.log_prob);
  emit("entropy", scores.entropy);
}

/// Forward, objective and backward of some samples; the gradients are added to the leaves'.
void run_micro_batch(const Training& t, std::span<const Sample> samples,
                     std::span<const SampleTargets> targets, std::span<const double> weights,
                     const engine::StepConfig& config, engine::StepResult& out) {
  const bool entropy_gradient = config.objective.entropy_coef != 0;
  const RowScores scores =
      score_rows(t.network, hidden_of(t.network, samples), samples,
                 static_cast<double>(config.train.temperature), entropy_gradient);
  emit_scores(t.runtime, samples, scores);
  scores.log_prob.retain_grad();
  if (entropy_gradient) scores.entropy.retain_grad();
  const Objective objective =
      make_objective(config.objective, samples, targets, weights, scores.log_prob, scores.entropy);
  objective.total.backward();
  out.losses.policy += objective.policy_loss.item<double>();
  out.losses.entropy += objective.entropy_loss.item<double>();
  out.losses.kl += objective.kl_loss.item<double>();
  out.losses.total += objective.total.item<double>();
  append_scores(samples, scores, out.scores);
  append_terms(samples, objective, scores, out.terms);
}

double clip_fraction(std::span<const Sample> samples, std::span<const double> weights,
                     const engine::StepResult& step) {
  double out = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t t = 0; t < step.terms[i].size(); ++t) {
      if (samples[i].loss_mask[t] != 0 && step.terms[i][t].clipped) out += weights[i];
    }
  }
  return out;
}

/// Shows one tensor of every parameter.
void emit_parameters(const Training& t, Op op, const std::vector<at::Tensor>& tensors) {
  if (t.runtime.sink == nullptr || tensors.front().scalar_type() != at::kFloat) return;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Parameter& p = t.parameters.list[i];
    const at::Tensor values = tensors[i].detach();
    check(values.is_contiguous(), "a parameter's tensor is stored row by row");
    t.runtime.emit_whole({Phase::kOptimizer, p.layer, op, p.name},
                         kernels::Matrix<float>(values.mutable_data_ptr<float>(), p.rows, p.cols));
  }
}

/// A gradient for every weight; zeros where no token reached it.
std::vector<at::Tensor> gradients(const Training& t) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& w : t.state.weights()) {
    if (!w.grad().defined()) w.mutable_grad() = at::zeros_like(w);
    out.push_back(w.grad());
  }
  return out;
}

/// torch.nn.utils.clip_grad_norm_.
void clip(const Training& t, const engine::OptimizerConfig& config,
          const std::vector<at::Tensor>& gradients, engine::StepResult& out) {
  std::vector<at::Tensor> norms;
  for (const at::Tensor& g : gradients) norms.push_back(at::linalg_vector_norm(g, 2));
  const auto norm = at::linalg_vector_norm(at::stack(norms), 2);
  out.grad_norm = norm.item<double>();
  engine::emit_scalar(t.runtime, Phase::kClip, Op::kClip, "norm", out.grad_norm);
  if (config.clip_grad != 0) {
    out.clip_scale = static_cast<float>(
        std::min(1.0, static_cast<double>(config.clip_grad) / (out.grad_norm + 1e-6)));
  }
  engine::emit_scalar(t.runtime, Phase::kClip, Op::kClip, "scale", out.clip_scale);
  if (out.clip_scale == 1) return;
  for (const at::Tensor& g : gradients) g.mul_(static_cast<double>(out.clip_scale));
}

/// torch.optim.AdamW(fused=True): those parameters that decay, then the others.
void update(const Training& t, const engine::StepConfig& config,
            const std::vector<at::Tensor>& gradients) {
  const engine::OptimizerConfig& o = config.optimizer;
  const auto count = at::scalar_tensor(static_cast<double>(t.steps), at::kFloat);
  for (const bool decays : {true, false}) {
    std::vector<at::Tensor> w, g, m, v;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if ((o.decay_vectors || !t.parameters.list[i].is_vector()) != decays) continue;
      w.push_back(t.state.weights()[i]);
      g.push_back(gradients[i]);
      m.push_back(t.state.first()[i]);
      v.push_back(t.state.second()[i]);
    }
    if (w.empty()) continue;
    const std::vector<at::Tensor> counts(w.size(), count);
    at::_fused_adamw_(w, g, m, v, {}, counts, config.lr, o.beta1, o.beta2,
                      decays ? o.weight_decay : 0.0, o.eps, /*amsgrad=*/false, /*maximize=*/false);
  }
}

}  // namespace

void append_scores(std::span<const Sample> samples, const RowScores& scores,
                   std::vector<Scores>& out) {
  engine::append_scores(samples, {floats(scores.log_prob), floats(scores.entropy)}, out);
}

engine::StepResult train_step(const Training& t, std::span<const Sample> samples,
                              std::span<const SampleTargets> targets,
                              const engine::StepConfig& config) {
  engine::check_batch(config.objective, samples, targets);
  for (const at::Tensor& w : t.state.weights()) w.mutable_grad().reset();  // of a step that failed
  engine::StepResult out;
  const std::vector<double> weights =
      engine::sample_weights(config.objective.reducer, samples, config.trajectories);
  for (const engine::MicroBatch& part :
       engine::micro_batches(samples.size(), config.micro_batch_size)) {
    run_micro_batch(t, samples.subspan(part.first, part.count),
                    targets.subspan(part.first, part.count),
                    std::span(weights).subspan(part.first, part.count), config, out);
    if (config.progress) config.progress(static_cast<int64_t>(part.first + part.count));
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    engine::check_scores(samples[i], out.scores[i].log_probs, out.scores[i].entropy);
  }
  out.losses.clip_fraction = clip_fraction(samples, weights, out);
  engine::emit_losses(t.runtime, out.losses);
  const c10::NoGradGuard constant;
  const std::vector<at::Tensor> summed = gradients(t);
  // No gradient is shown: the table's are exact sums, and these are none.
  clip(t, config.optimizer, summed, out);
  t.steps += 1;
  update(t, config, summed);
  for (const at::Tensor& w : t.state.weights()) w.mutable_grad().reset();
  emit_parameters(t, Op::kExpAvg, t.state.first());
  emit_parameters(t, Op::kExpAvgSq, t.state.second());
  emit_parameters(t, Op::kWeight, t.state.weights());
  return out;
}

}  // namespace rlreplay::aten
