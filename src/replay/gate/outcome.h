#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/replay/gate/golden.h"
#include "src/replay/gate/left_dump.h"

namespace rlreplay::gate {

/// What is said of one golden file (the outcome table of docs/golden.md).
enum class Outcome {
  kMatch,             // every bit
  kLooseMatch,        // every bit, and tolerances that nothing needs
  kEnvironmentDrift,  // within the tolerances, in another environment
  kCodeDrift,         // within the tolerances, in the same environment
  kRegression,        // beyond them, in the same environment
  kUnattributed,      // beyond them, in another environment
  kVacuous,           // recorded or given now: values that could not show a change
  kUnstable,          // two runs of now differ by more than the tolerances
  kNotJudged          // the run gave no values
};

/// `match`, `loose match`, ...
[[nodiscard]] std::string_view to_string(Outcome outcome);

/// What a run gives now, and where.
struct Observation {
  GoldenEntries environment = {};
  GoldenEntries inputs = {};  // of a run of ours
  GoldenEntries values = {};
  std::optional<GoldenEntries> again = {};  // of a second run
  std::string problem = {};                 // why there are no values
  LeftDump dump = {};                       // of a command's run
};

/// A value that is not what was recorded.
struct JudgedDifference {
  GoldenDifference bits;
  std::optional<Tolerance> tolerance =
      {};  // of those of its key the first that is broken, or the first
  std::optional<double> distance = {};  // in its unit
  bool within = false;
};

/// What is said of a golden file, and by which differences.
struct GoldenVerdict {
  Outcome outcome = Outcome::kNotJudged;
  std::string reason = {};  // of those that need one
  std::vector<JudgedDifference> differences = {};
  std::vector<std::string> environment = {};  // what of it differs, a line each
  std::vector<std::string> inputs = {};       // what of the inputs differs, likewise
  size_t values = 0;                          // compared
};

/// The values of two runs that differ, each judged by the tolerances whose patterns fit its key:
/// all of these hold. Without one a difference is not within.
[[nodiscard]] std::vector<JudgedDifference> differences(const std::vector<Tolerance>& tolerances,
                                                        const GoldenEntries& recorded,
                                                        const GoldenEntries& now);

/// The line of the table that holds.
[[nodiscard]] GoldenVerdict judge(const Golden& golden, const Observation& now);

/// Whether what a run gives now could be a golden file: two runs of it give values that could show
/// a change, and lie within the tolerances of each other.
[[nodiscard]] bool acceptable(const Golden& golden, const Observation& now);

/// Whether a gate lets it pass: drift of the environment does unless `strict`.
[[nodiscard]] bool passes(Outcome outcome, bool strict);

/// Whether values that are not the recorded ones are let pass by a quarantine.
[[nodiscard]] bool excused(Outcome outcome, const std::optional<Quarantine>& quarantine,
                           const std::string& day);

/// The tolerances that these runs need of each other: no bound grows, and what needs none has none.
[[nodiscard]] std::vector<Tolerance> tightened(std::vector<Tolerance> tolerances,
                                               const std::vector<GoldenEntries>& runs);

}  // namespace rlreplay::gate
