#pragma once

#include <span>
#include <string>

#include "src/replay/inspect/objective_check.h"

namespace rlreplay::replay {

/// Where the first NaN or infinity of a step enters, in the order in which a step computes, of what
/// it reads under the options; empty for a step that recorded none.
[[nodiscard]] std::string first_not_finite(const RecordedStep& step,
                                           std::span<const Quantity> quantities,
                                           const ObjectiveSetting& setting);

/// The first number of a rollout's steps that is not finite where the loss mask is 0, of those that
/// the losses are computed from, first of what the options read; empty without one.
[[nodiscard]] std::string first_masked_not_finite(const RecordedRollout& rollout,
                                                  const ObjectiveSetting& setting);

}  // namespace rlreplay::replay
