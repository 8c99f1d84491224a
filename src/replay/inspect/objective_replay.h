#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/objective/batch_objective.h"
#include "src/replay/inspect/objective_setting.h"
#include "src/replay/record/recorded_step.h"

/// The objective of recorded steps, computed again by the engine from recorded log-probabilities:
/// no model is needed.
namespace rlreplay::replay {

/// What a rollout's objective is from rewards to advantages. Each stage takes what was recorded of
/// the one before it where that is there, else what was computed, so that one difference does not
/// hide the next. What cannot be computed is absent, and a text says why.
struct AdvantageValues {
  std::optional<std::vector<double>> shaped;        // rewards, of the steps' samples in a row
  TokenColumn kl, returns, reverse_kl, advantages;  // of the steps' samples in a row
  /// The advantages of the returns above, where `advantages` are of recorded ones: one false return
  /// changes these of every token that is whitened with it.
  TokenColumn own_advantages;
  std::string missing_rewards, missing;  // of the shaped rewards; of all that follows from them
  bool refuses_rewards = false;          // the options take no such rewards: others may
};
[[nodiscard]] AdvantageValues replay_advantages(const RecordedRollout& rollout,
                                                const ObjectiveSetting& setting);

/// Tokens that lie so near to a bound of a clip that binary32 decides either way.
struct ClipBorder {
  int64_t tokens = 0;
  double none = 0, all = 0;  // the share with none of them clipped, and with all

  void add(bool clipped, bool at_bound, double weight) {
    tokens += at_bound;
    if (at_bound || clipped) all += weight;
    if (!at_bound && clipped) none += weight;
  }
};

/// What a step's objective is from log-probabilities to losses.
struct LossValues {
  TokenColumn policy_kl, policy_loss;  // of the samples whose inputs were recorded
  std::optional<engine::Losses> losses;
  ClipBorder clip_border;                                 // where there are losses
  std::optional<double> value_loss, value_clip_fraction;  // of a critic
  ClipBorder value_clip_border;                           // where there is a value loss
  bool has_entropy = true;     // else it is taken as 0 and not to be compared
  bool has_total = true;       // else the total is not to be compared
  bool policy_is_old = false;  // no log-probabilities of the step itself: those before it
  std::string missing;
};

/// The step's part of computed columns, for where none were recorded.
struct ComputedColumns {
  TokenColumn advantages, returns;
};
[[nodiscard]] LossValues replay_losses(const RecordedRollout& rollout, const RecordedStep& step,
                                       const ComputedColumns& computed,
                                       const ObjectiveSetting& setting);

}  // namespace rlreplay::replay
