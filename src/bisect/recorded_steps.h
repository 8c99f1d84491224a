#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/dump_reader.h"
#include "format/train_data.h"
#include "src/bisect/metrics.h"
#include "src/replay/event_store.h"

namespace rlreplay::bisect {

/// One optimizer step of a dump.
struct StepId {
  int64_t rollout_id = 0;
  int64_t step_id = 0;

  /// `3-0`, as a dump calls it; `3.0`, as reports do.
  std::string group() const;
  std::string name() const;
  friend auto operator<=>(const StepId&, const StepId&) = default;
};

/// What a search reads of a dump: its steps, in order.
/// Errors: those of the format, also when a step is read.
class RecordedSteps {
 public:
  /// Errors: kIncomplete when the dump was not sealed or holds no step.
  explicit RecordedSteps(const std::string& path);

  const std::vector<StepId>& steps() const { return steps_; }
  const format::DumpReader& dump() const { return dump_; }

  /// Of every rank, in their order.
  std::vector<format::TrainData> train_data(const StepId& step) const;

  /// The scalars of all steps: of ranks, that of the lowest counts.
  std::vector<Metric> scalars() const;

  /// The events of a step, those of its rollout before those of the rollout's first step; none
  /// where none were recorded. Errors: kUnsupported for a dump of several ranks.
  engine::StepEvents events(const StepId& step) const;

  /// What the rollout's tokens are known by; empty when they were not recorded.
  std::string tokens_hash(int64_t rollout_id) const;

 private:
  format::DumpReader dump_;
  std::vector<StepId> steps_;
};

}  // namespace rlreplay::bisect
