#pragma once

#include <string>
#include <vector>

#include "src/replay/options/options.h"

namespace rlreplay::replay {

/// What a replay does again, and so which options count in it.
enum class ReplayKind { kTraining, kImportedTraining, kRollout, kReferee };

/// What an option can do to a replay.
enum class Effect {
  kBits,
  kSpeed,  // the bits stay as they are, by contract
  kNone,   // the record says it, nothing of it is done, or another option that it needs is off
};

/// What an imported record has of all samples that are trained on, so that no option computes it.
struct RecordGives {
  bool advantages = false;
  bool shaped_rewards = false;
  bool steps = false;   // which samples each trains on
  bool nuclei = false;  // the ids that top-p kept
};

/// What an option can do to a replay with these options, by a record that gives this much.
[[nodiscard]] Effect effect_of(const Option& option, ReplayKind kind, const RunOptions& options,
                               const RecordGives& gives = {});

/// The options in which two sets differ and that have this effect, in the table's order.
[[nodiscard]] std::vector<const Option*> changed_options(const RunOptions& before,
                                                         const RunOptions& after, ReplayKind kind,
                                                         Effect effect,
                                                         const RecordGives& gives = {});

/// Refuses options that would be said to be overridden and change nothing.
/// Errors: kUsage, naming them and what they need or what can be overridden.
void check_overrides(const RunOptions& recorded, const RunOptions& asked, ReplayKind kind);

/// An option's value as people write it: 1e-04, not 0.0001.
[[nodiscard]] std::string written(const RunOptions& options, const Option& option);

/// `lr: 1e-06 -> 2e-06`, for each option of a replay that can change its bits and does.
[[nodiscard]] std::vector<std::string> override_lines(const RunOptions& recorded,
                                                      const RunOptions& asked, ReplayKind kind,
                                                      const RecordGives& gives = {});

/// The options that have no effect on a replay, as `--seed, --prompts`: for where launch scripts
/// are pasted. Empty where there are none.
[[nodiscard]] std::string without_effect(const RunOptions& before, const RunOptions& asked,
                                         ReplayKind kind, const RecordGives& gives = {});

}  // namespace rlreplay::replay
