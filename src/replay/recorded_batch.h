#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/rollout_data.h"
#include "src/replay/recorded_run.h"

/// Samples of a dump of any origin, as far as they were recorded. Replays of our own captures read
/// RecordedRun::samples, which lets nothing be missing.
namespace rlreplay::replay {

/// The samples that were trained on in one step, or, of a rollout without steps, all of its own.
struct RecordedBatch {
  StepId id;
  bool trained = false;  // a step of the dump
  /// Masks are ones where none were recorded; log-probabilities of the rollout are empty then.
  std::vector<engine::Sample> samples;
  /// As recorded: empty where they were not.
  std::vector<engine::SampleTargets> targets;
  /// Of the policy in the step's own forward pass; empty where not recorded.
  std::vector<std::vector<float>> log_probs;
  /// Of the weights that wrote each sample, in their order; empty where not recorded.
  std::vector<std::vector<int64_t>> versions;
  std::vector<bool> has_mask, has_reward, has_group;
  std::optional<format::NamedColumns> scalars;

  size_t size() const { return samples.size(); }
  /// A recorded scalar of the step: "loss".
  std::optional<double> scalar(std::string_view name) const;
};

/// The batches of one rollout, in order; of several ranks together, each sample once.
/// Errors: kIncomplete where neither the step nor its rollout holds a sample's tokens or prompt
/// length; kCorrupt.
std::vector<RecordedBatch> recorded_batches(const RecordedRun& run, int64_t rollout);

/// All rollouts of a dump that were generated or trained on, in order.
std::vector<int64_t> recorded_rollouts(const RecordedRun& run);

}  // namespace rlreplay::replay
