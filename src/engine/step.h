#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/engine/global_batch.h"
#include "src/engine/optimizer_step.h"
#include "src/engine/replica_check.h"
#include "src/engine/stage.h"
#include "src/objective/batch_objective.h"
#include "src/objective/token_objective.h"

namespace rlreplay::engine {

/// Everything an optimizer step changes, or a rank's part of it.
struct TrainState {
  Model model;
  Moments moments;
  int64_t step = 0;  // optimizer steps taken

  explicit TrainState(const ModelConfig& config) : TrainState(config, {}, {}) {}
  TrainState(const ModelConfig& config, const Layout& layout, const RankPlace& place)
      : model(config, make_shard(config, layout, place), place),
        moments(layout.zero ? zero_range(model.parameters(), place.dp, layout.dp)
                            : kernels::Range{0, model.parameters().elements}) {}
};

/// What one optimizer step computes. `micro_batch_size` changes no bit.
struct StepConfig {
  ObjectiveConfig objective;
  StageOptions train;
  OptimizerConfig optimizer;
  double lr = 1e-6;
  int64_t micro_batch_size = 0;  // 0: all at once
  /// Trajectories of the global batch, as the reducer counts them; none: as its samples name them.
  std::optional<int64_t> trajectories;
  /// Where the samples are a part of a batch whose weights and scale are kept.
  std::optional<HeldBatch> held = {};
  /// Told after each micro-batch how many samples went forward and backward; may be empty.
  std::function<void(int64_t finished)> progress;
};

/// What one optimizer step tells besides its events; a rank tells a part of it (see run_step).
struct StepResult {
  Losses losses;
  double grad_norm = 0;  // before clipping
  float clip_scale = 1;
  int scale = 0;               // S of the gradient sums
  std::vector<Scores> scores;  // of every sample
  std::vector<std::vector<TokenTerms>> terms;
  std::optional<ReplicaDifference> replicas;  // where ranks that hold the same do not
};

/// One optimizer step on `samples` with their targets (advantages, old and reference
/// log-probabilities, per response token).
/// A rank (Runtime::ranks) calls it with its own samples, a part of the global batch that may be
/// empty, and all ranks of a data-parallel index with the same. Its result has the losses of the
/// global batch and, on the last stage, the scores and terms of its own samples; every number is
/// the one that one rank would compute.
/// Errors: as check_samples and check_batch; kCorrupt where a score or a gradient is not finite,
/// with the first event that has such a number; kUnsupported where a gradient's contribution is too
/// large at three scales, by name.
[[nodiscard]] StepResult run_step(const Runtime& runtime, TrainState& state, Gradients& gradients,
                                  const RotaryView& rotary, std::span<const Sample> samples,
                                  std::span<const SampleTargets> targets, const StepConfig& config);

}  // namespace rlreplay::engine
