#include "src/engine/optimizer_step.h"

#include <algorithm>

#include "src/engine/parallel.h"
#include "src/engine/step_events.h"

namespace rlreplay::engine {

using kernels::KernelSet;

namespace {

/// The squares of those of the sums `held` that the rank owns.
kernels::SquareSum owned_squares(const Runtime& runtime, const Model& model, kernels::Range held,
                                 const Gradients& gradients) {
  kernels::SquareSum out{};
  for (size_t i = 0; i < model.slices().size(); ++i) {
    const kernels::Range owned = model.slices()[i].owned;
    const Parameter& p = model.parameters().list[i];
    const int64_t row = p.is_vector() ? 1 : p.cols;
    const int64_t begin = std::max(p.offset + owned.begin * row, held.begin);
    const int64_t end = std::min(p.offset + owned.end * row, held.end);
    if (begin >= end) continue;
    const int64_t* sums = gradients.sums().data() + begin;
    runtime.run(&KernelSet::sum_squares, {{sums, static_cast<size_t>(end - begin)}, &out});
  }
  return out;
}

/// What the rank holds of weights and moments.
void show_parts(const Runtime& runtime, Model& model, Moments& moments) {
  const auto show = [&](Op op, Buffer<float>& values, kernels::Range held) {
    emit_parts(runtime, model, Phase::kOptimizer, op, values.data(), held);
  };
  show(Op::kExpAvg, moments.first, moments.held);
  show(Op::kExpAvgSq, moments.second, moments.held);
  show(Op::kWeight, model.weights(), {0, model.parameters().elements});
}

/// The weights of data-parallel ranks that each updated a part of them.
void gather_weights(Group& dp, const Moments& moments, Buffer<float>& weights) {
  const std::span<const float> own(weights.data() + moments.held.begin,
                                   static_cast<size_t>(moments.held.size()));
  const Gathered<float> all = gather_items(dp, own);
  std::ranges::copy(all.items, weights.data());
}

}  // namespace

Moments::Moments(kernels::Range range)
    : held(range),
      first(static_cast<size_t>(range.size())),
      second(static_cast<size_t>(range.size())) {
  std::fill_n(first.data(), first.size(), 0.0f);
  std::fill_n(second.data(), second.size(), 0.0f);
}

double gradient_norm(const Runtime& runtime, const Model& model, kernels::Range held,
                     const Gradients& gradients) {
  kernels::SquareSum squares{};
  if (runtime.ranks == nullptr) {
    runtime.run(&KernelSet::sum_squares,
                {{gradients.sums().data(), gradients.sums().size()}, &squares});
  } else {
    squares = owned_squares(runtime, model, held, gradients);
    runtime.ranks->tp.sum(squares);
    runtime.ranks->pp.sum(squares);
    if (runtime.ranks->layout.zero) runtime.ranks->dp.sum(squares);
  }
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
    const kernels::Range held{std::max(p.offset, moments.held.begin),
                              std::min(p.offset + p.size(), moments.held.end)};
    if (held.size() <= 0) continue;
    const auto part = [&](auto* data, int64_t first = 0) {
      return std::span(data + held.begin - first, static_cast<size_t>(held.size()));
    };
    kernels::AdamW op;
    op.step = p.is_vector() ? plain : decayed;
    op.scale = gradients.scale();
    op.clip = clip;
    op.sum = part(gradients.sums().data());
    op.m = part(moments.first.data(), moments.held.begin);
    op.v = part(moments.second.data(), moments.held.begin);
    op.w = part(model.weights().data());
    runtime.run(&KernelSet::adamw, op);
    if (runtime.ranks != nullptr)
      continue;  // whole parameters are shown where they are put together
    const auto emit = [&](Op what, float* values) {
      runtime.emit_whole({Phase::kOptimizer, p.layer, what, p.name},
                         kernels::Matrix<float>(values, p.rows, p.cols));
    };
    emit(Op::kExpAvg, op.m.data());
    emit(Op::kExpAvgSq, op.v.data());
    emit(Op::kWeight, op.w.data());
  }
  if (runtime.dp() != nullptr && runtime.ranks->layout.zero) {
    gather_weights(*runtime.dp(), moments, model.weights());
  }
  if (runtime.ranks != nullptr) show_parts(runtime, model, moments);
  model.pack(runtime, PackedFor::kTraining);
}

}  // namespace rlreplay::engine
