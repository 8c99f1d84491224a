#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

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

/// One other way of computing the same, and why a run may have gone it.
struct ObjectiveVariant {
  std::string name;    // a flag where there is one: "--dialect miles"
  std::string reason;  // empty where the flag says it
  std::function<void(ObjectiveSetting&)> apply;
  std::vector<std::string> parts = {};              // the variants of which this one says more
  std::map<std::string, std::string> reasons = {};  // of single quantities, in place of `reason`
  bool says_nan = false;  // the record says where a NaN is from, or that the run was so
};

/// The reason of recorded_variants().
constexpr std::string_view kAsRecorded = "as the dump recorded it";

/// Options of the objective that a record has otherwise than `from`, as it has them: one by one,
/// and, of more than two, all together.
std::vector<ObjectiveVariant> recorded_variants(const ObjectiveSetting& from,
                                                const RunOptions& recorded);

/// What may lie between rewards and advantages, other than `from` has it. `samples` of the rollout,
/// none of which may be known; `masked_nan`: the first masked token that is not finite, if any.
std::vector<ObjectiveVariant> advantage_variants(const ObjectiveSetting& from, size_t samples,
                                                 const std::string& masked_nan);

/// "--a and without --b": what is left out comes last, so that it leaves out no more.
std::string joined_settings(std::vector<std::string> names);

/// What may lie between log-probabilities and losses.
std::vector<ObjectiveVariant> loss_variants(const ObjectiveSetting& from,
                                            const std::string& masked_nan);

}  // namespace rlreplay::replay
