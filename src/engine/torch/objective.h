#pragma once

#include <span>

#include <ATen/ATen.h>

#include "src/base/sample.h"
#include "src/objective/token_objective.h"

/// For the files of this folder alone.
namespace rlreplay::aten {

/// What the objective makes of log-probabilities and entropies [N] of response tokens.
struct Objective {
  at::Tensor ratio, policy, kl, token_total, clipped;    // [N], detached
  at::Tensor policy_loss, entropy_loss, kl_loss, total;  // weighted sums, with gradients
};

/// `weights`: of each sample's tokens. The tokens are those of `samples`, one after the other; they
/// may be a part of the batch that the weights belong to.
[[nodiscard]] Objective make_objective(const engine::ObjectiveConfig& config,
                                       std::span<const Sample> samples,
                                       std::span<const SampleTargets> targets,
                                       std::span<const double> weights, const at::Tensor& log_prob,
                                       const at::Tensor& entropy);

}  // namespace rlreplay::aten
