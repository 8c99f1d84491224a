#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/replay/inspect/objective_setting.h"

/// Other settings of an objective, which may explain what was recorded.
namespace rlreplay::replay {

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

/// Before an estimator's name in a setting.
inline const std::string kEstimatorSetting = "--advantage-estimator ";

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
