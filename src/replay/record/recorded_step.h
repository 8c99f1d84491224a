#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/rollout_data.h"
#include "format/train_data.h"
#include "src/base/sample.h"
#include "src/replay/record/record_problem.h"
#include "src/replay/record/recorded_run.h"

/// What a dump says of a rollout and of the training on it, whoever wrote it: native, imported,
/// complete or not. Every verb that reads a recorded step reads it here (format/SPEC.md, train).
namespace rlreplay::replay {

/// Numbers of response tokens by sample, as they were stored: binary64 stays binary64. A sample
/// that has none is empty. Nothing of a column means that no sample has it.
using TokenColumn = std::optional<std::vector<std::vector<double>>>;

/// The values rounded to binary32, which an engine computes with.
[[nodiscard]] std::vector<float> narrowed(std::span<const double> values);

/// Whether every sample that has a response has the column.
[[nodiscard]] bool is_whole(const TokenColumn& column, std::span<const Sample> samples);

/// Which fields of a sample were recorded; the others are 0, the mask is ones.
struct RecordedFields {
  bool group = false, reward = false, mask = false;
  bool own_mask = false, own_rollout_log_probs = false;  // by the step itself
};

/// The samples that were trained on in one step, or, of a rollout without steps, all of its own.
struct RecordedStep {
  StepId id;
  bool trained = false;  // a step of the dump
  /// The samples as they were packed, of several ranks one behind the other, each sample once.
  /// Group and reward are the rollout's; mask, trajectory and log-probabilities of the rollout are
  /// the step's own, else the rollout's.
  std::vector<Sample> samples;
  std::vector<RecordedFields> fields;  // of each sample

  TokenColumn log_probs;  // of the policy in the step's forward pass
  TokenColumn old_log_probs, ref_log_probs, teacher_log_probs, rollout_log_probs;
  TokenColumn entropy, ref_entropy, advantages, returns;
  TokenColumn values, current_values;  // a critic's, before the rollout's updates and in the step
  TokenColumn kl, reverse_kl, policy_kl, policy_loss;
  std::optional<std::vector<double>> shaped;  // rewards as the trainer shaped them, of all samples
  StepScalars scalars;                        // of all ranks

  /// A recorded scalar on which all ranks agree that have it: "loss".
  [[nodiscard]] std::optional<double> scalar(std::string_view name) const;
  /// How many the trainer counted, where that is not what the samples say.
  [[nodiscard]] std::optional<int64_t> trajectories() const;
};

/// The column of the trainer's log-probabilities of a sample by the weights that the rollout began
/// with: the old ones, or, of a rollout's first step, its own. Null where neither was recorded.
TokenColumn RecordedStep::*starting_column(const RecordedStep& step, size_t sample);

/// The columns of a step by their names in the dump: those of format::kTokenColumnFields.
struct StepColumn {
  std::string_view name;
  TokenColumn RecordedStep::*column;
};
[[nodiscard]] std::span<const StepColumn> step_columns();
[[nodiscard]] std::string_view column_name(TokenColumn RecordedStep::*column);

/// The samples of a rollout as they were generated, and the steps on them.
struct RecordedRollout {
  int64_t id = 0;
  /// The samples as generated; empty where no rollout unit holds them. Without lengths of prompts
  /// they have no response: what the steps say of one is theirs.
  std::vector<Sample> samples;
  std::vector<RecordedFields> fields;
  std::optional<format::RolloutData> data;
  std::map<uint64_t, size_t> rows;  // of `data` and `samples`, by id
  std::vector<RecordedStep> steps;
  std::vector<uint64_t> trained;  // ids of the steps' samples, of those too that were refused

  [[nodiscard]] bool has_rewards() const;  // of every sample
  [[nodiscard]] bool has_groups() const;
};

/// The rollouts that have steps in the dump, in order.
[[nodiscard]] std::vector<int64_t> trained_rollouts(const RecordedRun& run);

/// The rollouts that were generated or trained on, in order.
[[nodiscard]] std::vector<int64_t> recorded_rollouts(const RecordedRun& run);

/// The steps of their RecordedRollouts, in order: those that were recorded, and step 0 of each
/// rollout that none trained on.
[[nodiscard]] std::vector<StepId> steps_of_rollouts(const RecordedRun& run);

/// Reads all that the dump says of a rollout and of the training on it.
/// Errors: FormatError; kIncomplete where neither a step nor its rollout holds a sample's tokens or
/// the length of its prompt; kCorrupt where they contradict one another, and where two ranks hold
/// one sample with other values.
[[nodiscard]] RecordedRollout read_recorded_rollout(const RecordedRun& run, int64_t rollout);

/// Reads a rollout without what is refused, which is added to `problems`. Errors: FormatError.
[[nodiscard]] RecordedRollout read_recorded_rollout(const RecordedRun& run, int64_t rollout,
                                                    RecordProblems& problems);

/// Sees that a rollout holds all that a replay of it needs. Errors: kIncomplete, naming what not.
void check_replayable(const RecordedRun& run, const RecordedRollout& rollout);

/// The samples of a rollout that can be replayed. Errors: those of check_replayable.
[[nodiscard]] std::vector<Sample> replayable_samples(const RecordedRun& run, int64_t rollout);

/// The tokens of the longest prompt of one rollout. Errors: those of check_replayable.
[[nodiscard]] int64_t longest_prompt(const RecordedRun& run, int64_t rollout);

/// The tokens of the longest prompt of the run's first rollout; 0 where there is no rollout.
/// Errors: those of check_replayable.
[[nodiscard]] int64_t longest_prompt(const RecordedRun& run);

}  // namespace rlreplay::replay
