#pragma once

#include <span>
#include <string>
#include <utility>

#include "src/replay/run/trainer.h"

namespace rlreplay::replay {

/// One line a step for people: a table of 80 columns that grows as the run goes. Where a record
/// has another loss, gradient norm or rate, they and the change stand below.
class StepTable {
 public:
  /// The step's lines, below the table's head where it is the first.
  std::string add(const StepOutcome& step);

 private:
  bool begun_ = false;
};

/// `replicas` of the programs' JSON.
[[nodiscard]] std::string replicas_json(const engine::ReplicaDifference& difference);

/// A step as one line of JSON: `rlreplay.run.step/1`.
[[nodiscard]] std::string to_json(const StepOutcome& step);

/// Steps on standard output, as a table or as JSON, each as it ends.
class StepLines {
 public:
  explicit StepLines(bool json) : json_(json) {}
  void add(const StepOutcome& step);
  /// What add() prints.
  std::string text(const StepOutcome& step);

 private:
  bool json_;
  StepTable table_;
};

/// An observer of a run that prints each step after it has seen it.
template <class Observer>
class Printing : public Observer {
 public:
  template <class... Arguments>
  explicit Printing(bool json, Arguments&&... arguments)
      : Observer(std::forward<Arguments>(arguments)...), steps_(json) {}

  void step(StepOutcome& outcome, std::span<const Sample> samples,
            std::span<const SampleTargets> targets) override {
    Observer::step(outcome, samples, targets);
    steps_.add(outcome);
  }

 private:
  StepLines steps_;
};

}  // namespace rlreplay::replay
