#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/replay/capture/digesting.h"
#include "src/replay/record/recorded_run.h"
#include "src/replay/run/step_report.h"
#include "src/replay/verbs/run_flags.h"

/// What the ways of `rlreplay train` share.
namespace rlreplay::replay {

/// The words of `rlreplay train`.
struct TrainArguments {
  RunFlags flags;
  std::string from;   // a dump; empty: training on policy
  std::string steps;  // as parse_steps reads them; on policy a count
  std::string inject;
  std::string output;
  std::optional<uint64_t> without_sample;
  bool force = false;
  bool each_step = false;
  bool stop_at_first = false;
  bool all = false;
  bool json = false;
  // Of the referee
  bool forward = false;
  std::vector<uint64_t> samples, groups;
  std::optional<int64_t> max_tokens;
  std::optional<int64_t> weights_version;
};

/// Prints each step as it ends, with digests of the state.
using Printer = Printing<DigestingObserver>;

/// Takes the recorded steps of a captured dump again, and compares. Returns the exit code, as the
/// functions below.
[[nodiscard]] int train_replayed(const TrainArguments& arguments, const RecordedRun& record);

/// Trains on the samples of an imported dump, from the weights of --model.
[[nodiscard]] int train_imported(const TrainArguments& arguments, const RecordedRun& record,
                                 const std::string& vendor);

/// Takes a recorded step as it was and without one of its samples, and says what that changes.
[[nodiscard]] int train_without(const TrainArguments& arguments, const RecordedRun& record,
                                const RunOptions& options);

/// Judges recorded log-probabilities by those that --model gives (the referee).
[[nodiscard]] int judge_forward(const TrainArguments& arguments, const RecordedRun& record);

/// Sees that options of the referee come with it. Errors: kUsage where they do not.
void check_referee(const TrainArguments& arguments);

}  // namespace rlreplay::replay
