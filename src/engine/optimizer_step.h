#pragma once

#include <cstdint>

#include "src/base/buffer.h"
#include "src/engine/gradients.h"
#include "src/engine/model.h"
#include "src/engine/runtime.h"

namespace rlreplay::engine {

/// How gradients are clipped and weights updated; the formulas stand in kernels/optimizer.h.
struct OptimizerConfig {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool decay_vectors = false;  // Megatron leaves biases and norms alone
  float clip_grad = 1.0f;      // 0: no clipping
};

/// AdamW's running means of the elements `held` of the flat storage, in its order.
struct Moments {
  kernels::Range held;
  Buffer<float> first, second;
  explicit Moments(kernels::Range range);
};

/// The norm of all gradients, of which the rank has the sums `held`, in binary64: exact squares,
/// one rounding (tied tensors once, and every element once that several ranks hold).
[[nodiscard]] double gradient_norm(const Runtime& runtime, const Model& model, kernels::Range held,
                                   const Gradients& gradients);

/// kernels::clip_scale with eps 1e-6; 1 where clipping is off.
[[nodiscard]] float clip_scale(const OptimizerConfig& config, double norm);

/// The update number `step` (from 1) of every element whose moments the rank holds, and the others'
/// from those that hold theirs; then the weights are packed anew.
void optimizer_step(const Runtime& runtime, const OptimizerConfig& config, double lr, int64_t step,
                    const Gradients& gradients, float clip, Model& model, Moments& moments);

}  // namespace rlreplay::engine
