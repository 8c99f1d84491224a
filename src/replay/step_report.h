#pragma once

#include <iosfwd>
#include <string>

#include "src/replay/trainer.h"

namespace rlreplay::replay {

/// One line a step for people: a table of 100 columns that grows as the run goes.
class StepTable {
 public:
  explicit StepTable(std::ostream& out) : out_(out) {}
  void add(const StepOutcome& step);

 private:
  std::ostream& out_;
  bool begun_ = false;
};

/// The same for machines: `rlreplay.step/1`.
std::string to_json(const StepOutcome& step);

/// Steps on standard output, as a table or as JSON, each as it ends.
class StepLines {
 public:
  explicit StepLines(bool json);
  void add(const StepOutcome& step);

 private:
  bool json_;
  StepTable table_;
};

}  // namespace rlreplay::replay
