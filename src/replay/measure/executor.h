#pragma once

#include "src/replay/measure/candidate.h"
#include "src/replay/measure/measurement.h"

namespace rlreplay::measure {

/// Which build a run may use.
enum class Build { kAny, kFresh };

/// Runs candidates.
class Executor {
 public:
  Executor() = default;
  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Whatever a candidate does or leaves is a measurement of it.
  /// Errors: kInterrupted; kEnvironment where no candidate can be run.
  virtual Measurement measure(const Candidate& candidate, Build build) = 0;
};

}  // namespace rlreplay::measure
