#pragma once

#include <span>
#include <string>
#include <vector>

#include "format/rollout_data.h"
#include "src/base/layout.h"
#include "src/events/event_record.h"
#include "src/replay/record/recorded_run.h"
#include "src/replay/rerun/step_values.h"

/// What a step records beside the numbers that its computation gives.
namespace rlreplay::replay {

/// Adds what the step's columns hold for the tokens of prompts, where a run records +0.
void add_prompt_values(const RecordedRun& run, const StepId& step, std::span<const Sample> samples,
                       StepValues& to);

/// The same of what a rollout recorded.
void add_prompt_values(const format::RolloutData& data, StepValues& to);

/// Adds which weights wrote each response, by the optimizer steps that they had taken, and the
/// token from which on: a run has one version a sample, behind its prompt.
void add_versions(const format::RolloutData& data, int64_t steps, StepValues& to);

/// Adds how samples ended, by the codes of `finish`: the replay of each with a stop id or not.
void add_finishes(const format::RolloutData& data, const std::vector<bool>& stopped,
                  StepValues& to);

/// How the ranks of a record and of its replay share a step.
struct Layouts {
  Layout record, replay;

  /// Why statistics of the two are not compared.
  [[nodiscard]] std::string text() const;
};

/// Adds the statistics of events that are other numbers where the digests are the same. Of another
/// layout none are compared, which is said: it sums in another order.
void add_statistics(const engine::StepEvents& record, const engine::StepEvents& replay,
                    const Layouts& layouts, StepValues& to);

}  // namespace rlreplay::replay
