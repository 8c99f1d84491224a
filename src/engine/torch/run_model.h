#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/rotary_table.h"
#include "src/base/model_config.h"
#include "src/base/parameters.h"
#include "src/base/sample.h"
#include "src/engine/torch/operators.h"
#include "src/objective/token_objective.h"

/// The engine's model on stock ATen operators with autograd: an oracle in float64, a baseline and
/// something to compare with in float32.
namespace rlreplay::aten {

/// A model, its samples, and what the objective reads.
struct ModelInput {
  const ModelConfig* config = nullptr;
  const ParameterTable* parameters = nullptr;
  std::span<const float> weights;  // flat, in the table's order
  std::span<const Sample> samples;
  std::span<const SampleTargets> targets;  // empty: forward only
  engine::ObjectiveConfig objective;
  float temperature = 1;
  kernels::Rope rope = kernels::Rope::kExact;
};

/// Without targets losses are 0 and gradients empty.
struct ModelOutput {
  std::vector<double> hidden;     // [T, C] after the final norm, samples one after the other
  std::vector<double> log_probs;  // per response token, samples one after the other
  std::vector<double> entropy;
  double policy = 0, entropy_mean = 0, kl = 0, total = 0;  // reduced
  std::vector<double> gradients;                           // flat, in the table's order
};

/// One forward of all samples at once and, with targets, the objective and its backward.
[[nodiscard]] ModelOutput run_model(const ModelInput& input, Precision precision);

}  // namespace rlreplay::aten
