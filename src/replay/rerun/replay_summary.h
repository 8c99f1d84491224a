#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/replay/rerun/replay.h"

namespace rlreplay::replay {

/// The largest |replay - record| of one number over the steps of a replay.
struct LargestChange {
  double change = 0;
  double record = 0;               // there
  std::optional<StepId> step;      // none where no step changed it
  std::optional<uint64_t> sample;  // of a log-probability
  std::optional<int64_t> token;
  int64_t nonfinite = 0;  // pairs with a NaN or an infinity, in none of these
};

/// What a replay compared, and how far it was from the record.
struct ReplaySummary {
  int64_t steps = 0, different = 0;
  int64_t events = 0, values = 0;
  std::optional<LargestChange> loss, grad_norm, log_prob;  // where they were recorded
  std::vector<std::string> not_compared, taken;            // names of recorded numbers
  std::string different_values;                            // of the first step with any, as JSON
  std::string statistics_skipped;                          // why statistics were not compared

  void add(const StepOutcome& outcome);
  void add(const ReplayedStep& step);
  [[nodiscard]] bool identical() const { return different == 0; }
  /// Whether anything was compared to the bit; of an imported dump nothing is, whatever is equal.
  [[nodiscard]] bool judged() const { return events + values > 0; }
};

/// Two or three lines: against what and how much was compared, the largest changes, and
/// why statistics were not compared. `steps`: how many
/// the record has.
[[nodiscard]] std::string summary_text(const ReplaySummary& summary, const std::string& dump,
                                       size_t steps);

/// A line that says why statistics of events were not compared; empty without a reason.
[[nodiscard]] std::string skipped_line(const std::string& why);

/// One line: rlreplay.replay/1.
[[nodiscard]] std::string summary_json(const ReplaySummary& summary, const std::string& dump,
                                       size_t steps, const std::string& incomplete);

}  // namespace rlreplay::replay
