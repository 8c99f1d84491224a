#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "format/dump_reader.h"
#include "format/sample_columns.h"

/// A few numbers of each rollout and step of a dump, as its records count them; where a record
/// counts nothing, of the unit's values. Errors: FormatError; kCorrupt for a count of another form.
namespace rlreplay::replay {

/// A rollout in numbers. What was not recorded is absent; lengths are counted in tokens.
struct RolloutSummary {
  std::string id;
  /// `tokens` counts prompts too; `longest` is the length of a response; `masked` are the tokens of
  /// responses that do not count in the loss.
  uint64_t samples = 0, tokens = 0, response_tokens = 0, longest = 0, masked = 0;
  std::optional<uint64_t> groups;
  std::optional<double> reward, log_prob;               // means: of samples, of unmasked tokens
  std::optional<std::array<uint64_t, 5>> finish;        // stop, length, aborted, failed, ?
  std::optional<std::pair<int64_t, int64_t>> versions;  // smallest, largest
};

/// The rollouts of a dump by ascending id.
[[nodiscard]] std::vector<RolloutSummary> summarize_rollouts(const format::DumpReader& dump);

/// The evaluations that an import keeps beside the rollouts (`eval_` files), by their units' order.
[[nodiscard]] std::vector<RolloutSummary> summarize_evaluations(const format::DumpReader& dump);

/// A rank's part of a step in numbers. `samples` is 0 where the rank recorded events alone.
struct StepSummary {
  std::string id;
  int64_t rank = 0;
  uint64_t samples = 0, tokens = 0;
  std::vector<std::string> columns;  // of tokens, as "advantages"
  format::NamedColumns scalars;
  bool events = false;
};

/// Calls `use` for each step of each rank, by units: there may be a million, and none is kept.
void for_each_step(const format::DumpReader& dump,
                   const std::function<void(const StepSummary&)>& use);

}  // namespace rlreplay::replay
