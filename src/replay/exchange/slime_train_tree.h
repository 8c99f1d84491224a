#pragma once

#include <map>
#include <optional>
#include <set>

#include "format/dump_reader.h"
#include "format/foreign/tree.h"
#include "format/rollout_data.h"
#include "format/train_data.h"

namespace rlreplay::replay {

/// The training data of one rollout that this program recorded.
struct OwnTraining {
  int64_t rollout_id = 0;
  const format::RolloutData& rollout;          // tokens, prompt lengths, rewards
  std::map<int64_t, format::TrainData> steps;  // by step
};

/// The dict of slime's train dump, version 2: a row a sample, one shard of one rank. With
/// `selected`, these samples alone; what their losses are divided by stays that of all of them.
/// What slime has no column for is left to add_own_datasets; of the columns, `fields` of each
/// step's entry below `rlreplay` says which the step has.
/// Errors: kIncomplete where a step holds a sample that the rollout does not.
[[nodiscard]] foreign::Value slime_train(foreign::Tree& tree, const format::DumpReader& dump,
                                         const OwnTraining& training,
                                         const std::optional<std::set<uint64_t>>& selected);

}  // namespace rlreplay::replay
