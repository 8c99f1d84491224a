#pragma once

#include <functional>
#include <span>
#include <vector>

#include "src/replay/inspect/objective_check.h"

/// The search for settings that reproduce what the given ones do not.
namespace rlreplay::replay {

/// The quantities of one step under a setting, of its advantages or of its losses.
using ObjectiveCompute = std::function<std::vector<Quantity>(const ObjectiveSetting&)>;

/// Explains what differs from rewards to advantages: all together, or, where that explains more,
/// the rewards and the rest apart. The rest takes the rewards that were recorded, and these may be
/// shaped in another way.
[[nodiscard]] std::vector<Explanation> explain_advantages(const std::vector<Quantity>& from,
                                                          const ObjectiveOptions& options,
                                                          const RecordedRollout& rollout,
                                                          const ObjectiveCompute& compute,
                                                          Untried& untried);

/// Explains what differs from log-probabilities to losses; empty or one. A setting that gives the
/// recorded shares of clipped tokens, but not the losses recorded beside them, explains nothing;
/// nor does one where a share is all that was recorded. The settings that explain the step's
/// advantages, and their rivals, are tried of its losses too.
[[nodiscard]] std::vector<Explanation> explain_losses(const std::vector<Quantity>& from,
                                                      const ObjectiveOptions& options,
                                                      const RecordedRollout& rollout,
                                                      const std::vector<Explanation>& of_advantages,
                                                      const ObjectiveCompute& compute,
                                                      Untried& untried);

/// Whether `q` is a share of clipped tokens without a recorded loss beside it that was compared:
/// many estimators clip as many.
[[nodiscard]] bool is_lone_share(const std::vector<Quantity>& of_step, const Quantity& q);

}  // namespace rlreplay::replay
