#pragma once

#include <span>
#include <vector>

#include "format/rollout_data.h"
#include "src/replay/options/options.h"
#include "src/replay/rerun/step_values.h"

/// What a rollout records beside tokens, log-probabilities, events, versions and how samples ended.
namespace rlreplay::replay {

/// A rollout that was generated again, as far as it has what its record has.
struct RegeneratedRollout {
  std::span<const Sample> samples;  // in the order of the record's
  bool same_tokens = false;         // else nothing that follows from the responses is compared
};

/// Adds groups, masks, texts and rewards that are not what the run's options give:
/// texts where the program has the tokenizer and the prompts (the demo's), rewards of its own
/// functions, never of a command. Other columns are named as not compared. `options`: the record's.
void add_rollout_values(const format::RolloutData& data, const RunOptions& options,
                        const RegeneratedRollout& replay, StepValues& to);

}  // namespace rlreplay::replay
