#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "src/base/sample.h"
#include "src/engine/gradients.h"
#include "src/engine/runtime.h"
#include "src/objective/batch_objective.h"

namespace rlreplay::engine {

/// What a step must know of the samples of all ranks before its backward: every number here is the
/// same on all of them. W, w_t and S: docs/numerics.md section 6.
struct GlobalBatch {
  std::vector<SampleHeader> samples;  // by data-parallel rank, then as each has them
  std::vector<double> weights;        // of each
  size_t first = 0;                   // where this rank's own begin
  ContributionCounts counts;
  double loss_weight = 0;  // W
  bool has_reference = false;
  bool has_rollout = false;

  std::span<const double> own_weights(size_t count) const {
    return std::span(weights).subspan(first, count);
  }
};

/// The inputs of a step on this rank.
struct StepBatch {
  std::span<const Sample> samples;
  std::span<const SampleTargets> targets;
  const GlobalBatch& global;

  double weight(size_t sample) const { return global.weights[global.first + sample]; }
};

/// What a step keeps of a batch of which it takes only a part: its sums are then those of the
/// batch, less those of the samples that are left out, to the last integer.
struct HeldBatch {
  std::map<uint64_t, double> weights;  // w_t, by sample
  ContributionCounts counts;
  double loss_weight = 0;  // W
  int scale = 0;           // S, after what overflows the whole batch had
};

/// What parts of a batch need of the whole batch, whose step had `scale`. Errors: as gather_batch.
[[nodiscard]] HeldBatch hold_batch(const Runtime& runtime, const ObjectiveConfig& objective,
                                   int64_t leaf, std::optional<int64_t> trajectories,
                                   std::span<const Sample> samples,
                                   std::span<const SampleTargets> targets, int scale);

/// A part of a batch gets the weights and counts that its samples had in the whole.
/// Errors: kUsage for a sample that is not of that batch.
void keep_weights_of(const HeldBatch& whole, GlobalBatch& part);

/// Errors: kUsage for a batch without samples, or an id that occurs twice.
[[nodiscard]] GlobalBatch gather_batch(const Runtime& runtime, const ObjectiveConfig& objective,
                                       int64_t leaf, std::optional<int64_t> trajectories,
                                       std::span<const Sample> samples,
                                       std::span<const SampleTargets> targets);

/// The losses of the global batch, of those of this rank's own samples, which the last stage has.
/// Order: chains per sample over ascending tokens, then over samples by ascending id.
[[nodiscard]] Losses gather_losses(const Runtime& runtime, const GlobalBatch& batch,
                                   std::span<const Losses> own);

}  // namespace rlreplay::engine
