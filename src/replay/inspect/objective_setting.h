#pragma once

#include <cstdint>

#include "src/replay/options/options.h"

/// With what an objective is computed again: a run's options, and what frameworks decide without an
/// option.
namespace rlreplay::replay {

/// As the dialect groups what was recorded, or by prompt even where slime takes all for one group.
enum class Grouping { kRecorded, kPrompt, kWhole, kConsecutive };
/// Of means over samples: trajectories of the step, as recorded; its samples, each for itself; the
/// rollout's trajectories; masked tokens counted too.
enum class Denominators { kStep, kSamples, kRollout, kUnmasked };

/// Over which tokens advantages are whitened, and with what statistics: over the rollout or a step;
/// with those of sums in binary32 that the record implies, whose variance may be below 0.
enum class Whitening { kRollout, kStep, kBinary32, kNegative };

struct ObjectiveSetting {
  RunOptions options;
  Grouping grouping = Grouping::kRecorded;
  bool sizes_known = false;     // those of a rollout in the options are its own, not defaults
  uint64_t group_size = 0;      // of kConsecutive
  bool shape_binary32 = false;  // with the means of groups that the record implies
  int64_t reward_ranks = 1;     // of slime's GAE: the first one gives the reward to its last token
  bool charged_kl = false;      // likewise, the recorded kl is what each token was rewarded with
  bool own_reverse_kl = false;  // that of the recorded teacher, where another one is recorded too
  int64_t whitening_ranks = 1;  // ranks of context parallelism, each with its own statistics
  Whitening whitening = Whitening::kRollout;
  Denominators denominators = Denominators::kStep;
  bool early_term = false;  // the recorded policy_loss is that before OPSM and TIS
  bool masked_nan = false;  // masked tokens count as 0 times what they are, which NaN outlives
};

}  // namespace rlreplay::replay
