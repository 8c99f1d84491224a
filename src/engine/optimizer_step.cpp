#include "src/engine/optimizer_step.h"

#include <algorithm>
#include <cmath>

namespace rlreplay::engine {

using kernels::KernelSet;

Moments::Moments(int64_t elements)
    : first(static_cast<size_t>(elements)), second(static_cast<size_t>(elements)) {
  std::fill_n(first.data(), first.size(), 0.0f);
  std::fill_n(second.data(), second.size(), 0.0f);
}

double gradient_norm(const Runtime& runtime, const Gradients& gradients) {
  kernels::SquareSum squares{};
  runtime.run(&KernelSet::sum_squares,
              {{gradients.sums().data(), gradients.sums().size()}, &squares});
  return kernels::norm(squares, gradients.scale());
}

float clip_scale(const OptimizerConfig& config, double norm) {
  if (config.clip_grad == 0) return 1.0f;
  return kernels::clip_scale(norm, config.clip_grad, 1e-6f);
}

void optimizer_step(const Runtime& runtime, const OptimizerConfig& config, double lr, int64_t step,
                    const Gradients& gradients, float clip, Model& model, Moments& moments) {
  // The powers of the betas take as many factors as there were steps: once, not once a parameter.
  const auto step_with = [&](double decay) {
    return kernels::adamw_step({lr, config.beta1, config.beta2, config.eps, decay}, step);
  };
  const kernels::AdamWStep decayed = step_with(config.weight_decay);
  const kernels::AdamWStep plain = config.decay_vectors ? decayed : step_with(0);
  for (const Parameter& p : model.parameters().list) {
    const auto part = [&](auto* data) {
      return std::span(data + p.offset, static_cast<size_t>(p.size()));
    };
    kernels::AdamW op;
    op.step = p.is_vector() ? plain : decayed;
    op.scale = gradients.scale();
    op.clip = clip;
    op.sum = part(gradients.sums().data());
    op.m = part(moments.first.data());
    op.v = part(moments.second.data());
    op.w = part(model.weights().data());
    runtime.run(&KernelSet::adamw, op);
    const auto emit = [&](Op what, float* values) {
      runtime.emit_whole({Phase::kOptimizer, p.layer, what, p.name},
                         kernels::Matrix<float>(values, p.rows, p.cols));
    };
    emit(Op::kExpAvg, op.m.data());
    emit(Op::kExpAvgSq, op.v.data());
    emit(Op::kWeight, op.w.data());
  }
  model.pack(runtime, true);
}

}  // namespace rlreplay::engine
