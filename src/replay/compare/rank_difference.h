#pragma once

#include "src/replay/compare/field_difference.h"
#include "src/replay/compare/group_difference.h"

/// What each rank says for itself, compared rank by rank.
namespace rlreplay::replay {

/// The scalars of a step at `place`; what all ranks say is said once.
void compare_scalars(const ContentGroup& group, const GroupUnits& a, const GroupUnits& b,
                     const ValueDifference& place, FieldComparison& values);

/// The events of a rollout or step at `place`.
void compare_recorded_events(const ContentGroup& group, const GroupUnits& a, const GroupUnits& b,
                             const ValueDifference& place, FieldComparison& values);

}  // namespace rlreplay::replay
