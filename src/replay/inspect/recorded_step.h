#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/engine/sample.h"
#include "src/replay/recorded_run.h"

/// What a dump says of the training on one rollout, whoever wrote it: native, imported, complete or
/// not.
namespace rlreplay::replay {

/// Floats of response tokens by sample; a sample that has none is empty. Nothing of a column means
/// that no sample has it.
using TokenColumn = std::optional<std::vector<std::vector<float>>>;

/// Whether every sample that has a response has the column.
bool is_whole(const TokenColumn& column, std::span<const engine::Sample> samples);

struct RecordedStep {
  StepId id;
  /// As the step packed them, with the mask that it trained with. Group and reward are the
  /// rollout's, 0 where it does not say.
  std::vector<engine::Sample> samples;
  TokenColumn log_probs;  // of the policy in the step's forward pass
  TokenColumn old_log_probs, ref_log_probs, rollout_log_probs, entropy;
  TokenColumn advantages, returns, kl, policy_kl, policy_loss;
  std::optional<std::vector<double>> shaped;  // rewards as the trainer shaped them
  std::optional<format::NamedColumns> scalars;

  std::optional<double> scalar(std::string_view name) const;
};

/// The samples of a rollout as they were generated, and its steps.
struct RecordedRollout {
  int64_t id = 0;
  std::vector<engine::Sample> samples;  // empty where no rollout unit holds them
  bool has_rewards = false;             // of every sample
  bool has_groups = false;
  std::optional<format::RolloutData> data;
  std::vector<RecordedStep> steps;
};

/// The rollouts that have steps in the dump, in order.
std::vector<int64_t> trained_rollouts(const RecordedRun& run);

/// Errors: FormatError; kIncomplete where a step names neither tokens nor a rollout that has them.
RecordedRollout read_recorded_rollout(const RecordedRun& run, int64_t rollout);

}  // namespace rlreplay::replay
