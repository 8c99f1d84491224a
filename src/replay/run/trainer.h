#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/base/digest.h"
#include "src/engine/backend.h"
#include "src/engine/learning_rate.h"
#include "src/engine/step.h"
#include "src/objective/log_prob_difference.h"
#include "src/replay/options/options.h"
#include "src/replay/run/memory_plan.h"
#include "src/replay/source/model_source.h"

namespace rlreplay::replay {

/// Digests of the whole state after a step, each the sum of its tensors' digests: no layout and no
/// order of the tensors can matter.
struct StateDigests {
  Digest weights, gradients, optimizer;
};

/// How much of a step that somebody else took was recorded, in samples; the rest was computed.
struct RecordedCounts {
  int64_t samples = 0;
  int64_t advantages = 0, old_log_probs = 0, ref_log_probs = 0, masks = 0, rewards = 0;
  int64_t shaped_rewards = 0;  // from which advantages were computed
};

/// Rewards as a trainer shaped them, by sample; empty: of none.
using ShapedRewards = std::vector<std::optional<double>>;

/// What a record says of a step that was taken again.
struct RecordedScalars {
  std::optional<double> loss, grad_norm, lr;
};

/// One optimizer step, as reports and dumps see it.
struct StepOutcome {
  int64_t rollout_id = 0;
  int64_t step_id = 0;
  double lr = 0;
  engine::StepResult result;
  std::optional<LogProbDifference> train_vs_rollout;     // where the rollout has log-probabilities
  std::optional<LogProbDifference> policy_vs_reference;  // where there is a reference
  std::optional<LogProbDifference> replay_vs_record;     // where there is a record
  std::optional<bool> identical;                         // to the record
  std::string replicas;  // what result.replicas says, for people; empty: ranks agree
  std::optional<StateDigests> digests;
  std::optional<RecordedScalars> recorded_scalars;  // of a step that was taken again
  std::optional<RecordedCounts> recorded_counts;    // of an imported one
  std::optional<double> reward;        // mean of the step's samples, where all have one
  std::vector<double> shaped_rewards;  // of each, as its advantage begins; empty: not known
  int64_t tokens = 0;                  // of the step's samples, prompts included
  double seconds = 0;        // since the step before: rollout, rewards and scores included
  double train_seconds = 0;  // of them, forward, backward and update
};

/// A model in training: a backend with its weights and moments, the reference's weights, which it
/// takes turns with, and the schedule. Of each rollout its caller calls generate() for the
/// responses, which RunTask (run_task.h) judges; a replay has recorded samples instead. Then
/// targets(), once and of all samples, gives what the objective needs, by the weights before any
/// update. Then step() takes a part of the samples with their targets, until none are left.
/// Callers: run_training (run.h), replay_training and replay_rollouts (rerun/replay.h), of which
/// the last only generates; of imported steps replay_imported (rerun/imported_replay.h), which
/// calls complete_targets() in the place of targets().
class Trainer {
 public:
  /// Sees that the run fits into memory, then loads the weights.
  /// Errors: those of plan_run_memory, ModelSource::load and engine::make_backend.
  Trainer(const engine::Runtime& runtime, const RunOptions& options, const ModelSource& model,
          const Workload& workload);

  /// Its backends look into its runtime: it stays where it is.
  Trainer(Trainer&&) = delete;
  Trainer& operator=(Trainer&&) = delete;

  engine::Backend& backend() { return *backend_; }

  /// Responses to the requests by the weights as they are. Events go to `sink` unless it is null.
  [[nodiscard]] std::vector<Sample> generate(std::span<const engine::Request> requests,
                                             engine::EventSink* sink,
                                             const std::function<void(int64_t)>& progress);

  /// Whether a generated sample ends with a stop id: else it had no room for more.
  [[nodiscard]] bool has_stopped(const Sample& sample) const;

  /// Old and reference log-probabilities and advantages of a rollout, before its first update; old
  /// ones are left out where its only step computes them anyway. `given`: of all samples, or none;
  /// they are completed as below.
  [[nodiscard]] std::vector<SampleTargets> targets(std::span<const Sample> samples,
                                                   std::vector<SampleTargets> given = {});

  /// The targets in place: what is not empty of a sample's stays as it is. `several_steps`:
  /// whether the rollout has more than one, so that old log-probabilities are needed. `shaped`: of
  /// each sample; what is not there is shaped by the options. Errors: those of set_advantages.
  void complete_targets(std::span<const Sample> samples, bool several_steps,
                        std::span<SampleTargets> targets, const ShapedRewards& shaped = {});

  /// The rewards that the advantages begin with. `samples`: the whole rollout.
  std::vector<double> shaped_rewards(std::span<const Sample> samples) const;

  /// One optimizer step on samples of one rollout; for `trajectories` and `held` see StepConfig.
  [[nodiscard]] StepOutcome step(std::span<const Sample> samples,
                                 std::span<const SampleTargets> targets, engine::EventSink* sink,
                                 std::optional<int64_t> trajectories = {},
                                 std::optional<engine::HeldBatch> held = {});

  /// What a step on a part of these keeps of them, where a step on all had that scale.
  engine::HeldBatch held_batch(std::span<const Sample> samples,
                               std::span<const SampleTargets> targets, int scale) const;

  /// Writes the weights as a checkpoint, with `model`'s configuration and tokenizer.
  void save(const ModelSource& model, const std::string& folder) {
    model.save(backend_->parameters(), backend_->state().weights, folder);
  }

 private:
  enum class Whose { kPolicy, kReference };
  [[nodiscard]] std::vector<std::vector<float>> log_probs(std::span<const Sample> samples);
  using Clock = std::chrono::steady_clock;
  using TargetField = std::vector<float> SampleTargets::*;
  void fill(Whose whose, std::span<const Sample> samples, TargetField field,
            std::span<SampleTargets> targets);

  engine::Runtime runtime_;
  RunOptions options_;
  engine::LearningRate schedule_;
  std::unique_ptr<engine::Backend> backend_;
  std::vector<float> reference_;          // its weights, which the backend has while it is scored
  Clock::time_point lap_ = Clock::now();  // when the last step ended, or all this began
};

}  // namespace rlreplay::replay
