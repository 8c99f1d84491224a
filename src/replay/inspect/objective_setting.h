#pragma once

#include <cstdint>

#include "src/replay/options/options.h"

/// By what an objective is computed again: a run's options, and what frameworks decide without one.
namespace rlreplay::replay {

/// Which samples share a mean when rewards are shaped. kRecorded: those of a recorded group; slime
/// groups by number instead where a trajectory has several samples (engine::shaped_rewards).
/// kPrompt: those of a recorded group there too. kWhole: all samples of the rollout. kConsecutive:
/// `group_size` samples at a time, by ascending id.
enum class Grouping { kRecorded, kPrompt, kWhole, kConsecutive };

/// What sums over tokens are divided by, and so each token's weight in losses and clip fractions.
/// kStep: the step's trajectories and their unmasked tokens, as recorded. kSamples: its samples,
/// each a trajectory of its own. kRollout: the trajectories of all steps of the rollout. kUnmasked:
/// the step's trajectories, whose masked tokens count too.
enum class Denominators { kStep, kSamples, kRollout, kUnmasked };

/// Which mean and variance advantages are whitened by, where the options ask for it. kRollout:
/// those of the rollout's unmasked tokens, in binary64. kStep: those of each step's. kBinary32:
/// those that the recorded advantages imply, where sums in binary32 over the rollout can give them,
/// else as kRollout. kNegative: a variance below 0, as E[x^2] - E[x]^2 of sums in binary32 can end:
/// every advantage is NaN; as kRollout where it cannot.
enum class Whitening { kRollout, kStep, kBinary32, kNegative };

/// One way to compute an objective: options, and beside them what the search for explanations tries
/// too (objective_variants.h).
struct ObjectiveSetting {
  RunOptions options;
  Grouping grouping = Grouping::kRecorded;
  /// Whether a rollout's sizes in the options are the run's own and no defaults: by them slime
  /// groups samples of trajectories that have several.
  bool sizes_known = false;
  uint64_t group_size = 0;  // samples of a group, of kConsecutive or where none is recorded
  /// Whether rewards are shaped in binary32, less the mean that a group's recorded shaped rewards
  /// imply where it is as near to the exact one as sums in binary32 are.
  bool shape_binary32 = false;
  /// Ranks of context parallelism under slime's GAE, which adds the reward at the last response
  /// token that the first of them holds.
  int64_t reward_ranks = 1;
  /// Whether reward_kl, under slime's GAE, is what each token was rewarded with: -kl_coef times the
  /// KL and, at the token above, the reward.
  bool charged_kl = false;
  /// Whether advantages are charged with the recorded teacher's reverse KL where a reverse KL was
  /// recorded too.
  bool own_reverse_kl = false;
  int64_t whitening_ranks = 1;  // of context parallelism: each whitens the slices that it holds
  Whitening whitening = Whitening::kRollout;
  Denominators denominators = Denominators::kStep;
  bool early_term = false;  // policy_loss is that before OPSM and TIS
  /// Whether a masked token adds 0 times its number to sums, which is NaN where that is not finite;
  /// else it adds nothing.
  bool masked_nan = false;
};

}  // namespace rlreplay::replay
