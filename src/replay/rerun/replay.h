#pragma once

#include <functional>
#include <optional>

#include "src/replay/capture/recorder.h"
#include "src/replay/compare/step_difference.h"
#include "src/replay/record/recorded_run.h"
#include "src/replay/record/step_range.h"
#include "src/replay/rerun/injection.h"
#include "src/replay/rerun/step_values.h"
#include "src/replay/run/trainer.h"

namespace rlreplay::replay {

/// Which steps of a record are run again, and how.
struct ReplayPlan {
  StepRange steps;
  bool each_step = false;  // the recorded state is loaded before every step
  bool stop_at_first = false;
  std::optional<Injection> injection;
  engine::EventSink* observer = nullptr;  // sees the events of the first of these steps, too
};

/// The part of the recorded run that a replay's own dump is of, as dump_meta has it.
[[nodiscard]] std::string part_of(const ReplayPlan& plan, const RecordedRun& record);

/// One step that was run again.
struct ReplayedStep {
  StepOutcome outcome;
  StepDifference difference;
  StepValues values;
  int64_t events = 0;  // that were compared
  bool judged = true;  // false: run only to reach the first step asked for

  [[nodiscard]] bool identical() const {
    return difference.identical() && values.identical() && !outcome.result.replicas;
  }
};
using ReplaySink = std::function<void(const ReplayedStep& step)>;

/// Trains again from recorded rollouts and compares with the record, step by step. A recorder, if
/// there is one, gets the rollouts as they were recorded and the steps as they are now.
/// Returns whether every judged step was identical.
/// Errors: kIncomplete where the record lacks the state to begin with; kUsage for steps that it has
/// not, and where the difference that the plan plants was not planted.
[[nodiscard]] bool replay_training(const RecordedRun& record, const RunOptions& options,
                                   const ReplayPlan& plan, Trainer& trainer, ThreadPool& pool,
                                   Recorder* recorder, const ReplaySink& report);

/// The events of one step and of the one before it, computed again.
struct RecomputedStep {
  engine::StepEvents events;
  std::optional<engine::StepEvents> before;  // none where the step begins from a recorded state
};

/// Runs a step of the record again as `plan` says, and what leads to it, and keeps what the options
/// say of its events. Errors: as of replay_training.
[[nodiscard]] RecomputedStep recompute_step(const RecordedRun& record, const RunOptions& options,
                                            const ReplayPlan& plan, const StepId& step,
                                            Trainer& trainer, ThreadPool& pool);

/// A sample that is taken out of a recorded step.
struct Removal {
  StepId step;
  uint64_t sample = 0;
};

/// A recorded step as it was, and from the same state without one of its samples, whose weights,
/// advantages and scale stay those of the record.
struct StepWithout {
  ReplayedStep whole;
  StepOutcome without;
  std::vector<int64_t> part;  // the sample's of every gradient, in the order of the parameters
};

/// Refuses a step that nothing can begin at.
/// Errors: kIncomplete where the record has no state before the step.
void check_state(const RecordedRun& record, const StepId& step);

/// Takes a sample out of a step, then runs those behind it up to `last` freely, for `later`.
/// Errors: as of replay_training; kIncomplete without the state before the step; kUsage where the
/// step has no other sample.
[[nodiscard]] StepWithout remove_sample(const RecordedRun& record, const RunOptions& options,
                                        const Removal& removal, int64_t last, Trainer& trainer,
                                        ThreadPool& pool, const ReplaySink& later);

/// An element of a step's gradients as every sample of the step has added to it, by ascending id;
/// `element`: of all parameters, in their order. Errors: as of remove_sample.
[[nodiscard]] std::vector<std::pair<uint64_t, int64_t>> element_by_sample(
    const RecordedRun& record, const RunOptions& options, const StepId& step, int64_t element,
    Trainer& trainer, ThreadPool& pool);

/// One rollout that was generated again.
struct ReplayedRollout {
  int64_t id = 0;
  int64_t samples = 0;
  int64_t tokens = 0;                          // of recorded responses
  int64_t different_tokens = 0;                // positions of responses, missing ones too
  std::optional<LogProbDifference> log_probs;  // where all tokens agree
  StepDifference difference;
  StepValues values;  // beside these: at prompts, how samples ended, statistics
  [[nodiscard]] bool identical() const {
    return different_tokens == 0 && difference.identical() && values.identical() &&
           (!log_probs || (log_probs->different == 0 && log_probs->nonfinite == 0));
  }
};

/// Generates the recorded rollouts again, from recorded weights and seeds.
[[nodiscard]] bool replay_rollouts(const RecordedRun& record, const RunOptions& options,
                                   const ReplayPlan& plan, Trainer& trainer, ThreadPool& pool,
                                   const std::function<void(const ReplayedRollout&)>& report);

/// Takes the steps of one recorded rollout, with the weights as they are.
void train_through(const RecordedRun& record, const RunOptions& options, int64_t rollout,
                   Trainer& trainer, ThreadPool& pool);

/// A source of nothing but the record: its model's shape, and the weights before a step, without
/// one the first that were recorded.
[[nodiscard]] std::unique_ptr<ModelSource> recorded_model(const RecordedRun& record,
                                                          std::optional<StepId> state = {});

}  // namespace rlreplay::replay
