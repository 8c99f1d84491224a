#pragma once

#include "src/base/golden_file.h"
#include "src/replay/run/machine.h"
#include "src/replay/run/run.h"

namespace rlreplay::replay {

/// Adds what a golden file keeps of a rollout: tokens and log-probabilities as hashes. Keys begin
/// "rollout ROLLOUT ".
void add_golden(const RolloutBatch& rollout, GoldenEntries& entries);

/// Adds what a golden file keeps of a step: reward, loss, gradient norm and mean log-probability to
/// the bit, and the digests where the outcome has them. Keys begin "step ROLLOUT.STEP ".
void add_golden(const StepOutcome& step, GoldenEntries& entries);

/// What a golden run may ask for: a file may come from somebody else, and is to be checked often.
inline constexpr int64_t kMaxGoldenSamples = 1 << 16;

/// Errors: kUsage for options that no run on policy can have, and for more than kMaxGoldenSamples.
void check_golden_options(const RunOptions& options);

/// Runs on policy; the entries of all its rollouts and steps.
GoldenEntries golden_run(Machine& machine, const RunOptions& options);

/// The options of a run that change its bits, as entries "option NAME".
GoldenEntries golden_options(const RunOptions& options);
/// The options of such entries among others. Errors: those of set_option.
RunOptions options_of(const GoldenEntries& entries);

/// The entries of `entries` that a run gives, and not the options.
GoldenEntries results_of(const GoldenEntries& entries);

/// Whether the entries of a run could tell a changed one from it.
/// Errors: kUsage for numbers that are not finite, or where no step has a gradient.
void check_golden_run(const GoldenEntries& results);

}  // namespace rlreplay::replay
