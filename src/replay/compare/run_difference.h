#pragma once

#include <string>

#include "src/replay/compare/step_difference.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::replay {

/// What is done with a step whose stored content has equal hashes in both dumps.
enum class EqualContent { kRead, kSkip };

/// Where the recorded events of two dumps part.
struct RunDifference {
  StepDifference step;  // the first step that differs; identical where none does
  size_t compared = 0;  // steps, that one included
  size_t equal = 0;     // steps that were skipped for their equal hashes
  /// Why the first of the steps that were not compared was not: a dump has no events of it, or
  /// those of several ranks. Empty where all were.
  std::string skipped;
  std::string skipped_in;  // the path of that dump
};

/// The weights and moments that differ in the last states up to a step that both dumps have, by the
/// hashes of what they hold; none where they have no such state.
[[nodiscard]] StateTensors differing_state(const RecordedRun& a, const RecordedRun& b,
                                           const StepId& step);

/// Compares the events of the steps that both dumps have, in order, and stops at the first that
/// differs. A rollout's events count to its first step, where both dumps recorded events of it.
/// Errors: FormatError where a unit that must be read is not sound.
[[nodiscard]] RunDifference compare_runs(const RecordedRun& a, const RecordedRun& b,
                                         EqualContent equal);

}  // namespace rlreplay::replay
