#pragma once

#include <functional>
#include <span>
#include <utility>

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
  [[nodiscard]] virtual Measurement measure(const Candidate& candidate, Build build) = 0;

  /// Told of the measurement of one of several candidates, by its place among them.
  using Measured = std::function<void(size_t, Measurement)>;

  /// Measures each of several candidates, at once where that is possible. `measured` is told of
  /// each as soon as it has ended, in this thread and in any order.
  /// Errors: those of measure(), thrown once all that had begun have ended.
  virtual void measure_all(std::span<const Candidate> candidates, const Measured& measured) {
    for (size_t i = 0; i < candidates.size(); ++i) measured(i, measure(candidates[i], Build::kAny));
  }
};

}  // namespace rlreplay::measure
