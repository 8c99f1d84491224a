#pragma once

#include <optional>

#include "src/base/golden_file.h"
#include "src/engine/runtime.h"
#include "src/replay/rerun/injection.h"
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

/// Sees that a golden run can have these options.
/// Errors: kUsage where no run on policy can, and for more than kMaxGoldenSamples samples or
/// rollouts; those of check_on_policy.
void check_golden_options(const RunOptions& options);

/// Runs on policy; the entries of all its rollouts and steps. `planted`: a difference that is to be
/// planted in one of the steps.
/// Errors: those of InjectingSink; kUsage where nothing was planted.
[[nodiscard]] GoldenEntries golden_run(const engine::Runtime& runtime, const RunOptions& options,
                                       const std::optional<Injection>& planted = {});

/// The options of a run that can change its bits, as texts by name, defaults too.
[[nodiscard]] GoldenEntries golden_options(const RunOptions& options);

/// The options that golden_options() gave the texts of. Errors: those of apply_settings.
[[nodiscard]] RunOptions options_of(const GoldenEntries& options);

}  // namespace rlreplay::replay
