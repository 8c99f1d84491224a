#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/sample.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/run/trainer.h"

namespace rlreplay::replay {

/// The loss, gradient norm and learning rate of a step, as far as they were recorded.
[[nodiscard]] RecordedScalars recorded_scalars(const RecordedStep& step);

/// A recorded column or scalar that a replay does not give.
struct StepValueDifference {
  std::string name;                     // "grad_norm", "advantages"
  std::optional<uint64_t> sample = {};  // of the first place that differs; none of a scalar
  std::optional<int64_t> token = {};    // in the whole sample, prompt included; none of a reward
  double record = 0, replay = 0;        // there; of texts a byte, NaN at an end
  std::optional<std::pair<std::string, std::string>> texts = {};  // of the record and the replay
  int64_t compared = 0, different = 0;

  /// Compares one more pair of numbers, by bits; the first that differ are kept.
  void take(double in_record, double in_replay, std::optional<uint64_t> of_sample,
            std::optional<int64_t> of_token);
};

/// Ends the name of the numbers that a column has at the tokens of prompts.
inline constexpr std::string_view kOfPrompts = " of prompts";

/// The numbers that a step or rollout recorded beside its events, against those of its replay, by
/// bits.
struct StepValues {
  int64_t compared = 0;
  std::vector<StepValueDifference> different;  // in the order of in_order()
  std::vector<std::string> not_compared;       // recorded, but no number of a replay
  std::vector<std::string> taken;              // by the replay from the record
  std::string statistics_skipped;              // why statistics of events were not compared

  [[nodiscard]] bool identical() const { return different.empty(); }

  /// Counts numbers of one name as compared, and keeps them where any differ.
  void add(StepValueDifference numbers);

  /// Sorts what differs, causes first: prompts, how responses ended, columns in the order of the
  /// format (format/train_data.h), scalars.
  void in_order();
};

/// `samples`, `targets`: of the replay, in the order of the record's. `taken`: columns of the
/// targets that are the record's own.
[[nodiscard]] StepValues compare_values(const RecordedStep& record, const StepOutcome& outcome,
                                        std::span<const Sample> samples,
                                        std::span<const SampleTargets> targets,
                                        std::span<const std::string_view> taken);

/// [{"name": ..., "sample": ..., "token": ..., "record": ..., "replay": ...}, ...]
[[nodiscard]] std::string values_json(const StepValues& values);

/// A line each for people, at most `most` of them.
[[nodiscard]] std::string values_text(const StepValues& values, size_t most);

}  // namespace rlreplay::replay
