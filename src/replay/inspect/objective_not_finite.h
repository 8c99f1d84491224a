#pragma once

#include <span>
#include <string>

#include "src/replay/inspect/objective_check.h"

namespace rlreplay::replay {

/// Of a step that recorded a NaN or an infinity: where the first of them enters, in the order in
/// which a step computes, of what it reads under the options; empty for any other.
std::string first_not_finite(const RecordedStep& step, std::span<const Quantity> quantities,
                             const ObjectiveSetting& setting);

/// The first number of a rollout's steps that is not finite where the loss mask is 0, of those that
/// the losses are computed from, first of what the options read; empty without one.
std::string first_masked_not_finite(const RecordedRollout& rollout,
                                    const ObjectiveSetting& setting);

}  // namespace rlreplay::replay
