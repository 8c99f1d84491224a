#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/replay/inspect/objective_setting.h"

/// Other settings of an objective, which may explain what was recorded.
namespace rlreplay::replay {

/// A change of an ObjectiveSetting, and why a run may have been computed so.
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

/// What stands before an estimator's name in a setting.
inline const std::string kEstimatorSetting = "--advantage-estimator ";

/// The options of the objective that `recorded` has otherwise than `from`: each set alone as
/// recorded and, of more than two, all of them together.
[[nodiscard]] std::vector<ObjectiveVariant> recorded_variants(const ObjectiveSetting& from,
                                                              const RunOptions& recorded);

/// Changes of `from` that may give other shaped rewards, reward_kl, returns, reverse_kl or
/// advantages. `samples`: how many the rollout has, whose divisors are tried as sizes of groups.
/// `masked_nan`: first_masked_not_finite, empty without one.
[[nodiscard]] std::vector<ObjectiveVariant> advantage_variants(const ObjectiveSetting& from,
                                                               size_t samples,
                                                               const std::string& masked_nan);

/// "--a and without --b": names with "without" come last, or what follows would seem left out too.
[[nodiscard]] std::string joined_settings(std::vector<std::string> names);

/// Changes of `from` that may give another policy_loss or policy_kl of a token, another loss or
/// clip fraction. `masked_nan` as above.
[[nodiscard]] std::vector<ObjectiveVariant> loss_variants(const ObjectiveSetting& from,
                                                          const std::string& masked_nan);

}  // namespace rlreplay::replay
