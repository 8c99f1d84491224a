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

struct RolloutSummary {
  std::string id;
  uint64_t samples = 0, tokens = 0, response_tokens = 0, longest = 0, masked = 0;
  std::optional<uint64_t> groups;
  std::optional<double> reward, log_prob;               // means
  std::optional<std::array<uint64_t, 5>> finish;        // stop, length, aborted, failed, ?
  std::optional<std::pair<int64_t, int64_t>> versions;  // smallest, largest
};

[[nodiscard]] std::vector<RolloutSummary> summarize_rollouts(const format::DumpReader& dump);
/// Those that an import keeps aside, in units of their files' names.
[[nodiscard]] std::vector<RolloutSummary> summarize_evaluations(const format::DumpReader& dump);

struct StepSummary {
  std::string id;
  int64_t rank = 0;
  uint64_t samples = 0, tokens = 0;
  std::vector<std::string> columns;
  format::NamedColumns scalars;
  bool events = false;
};

/// Of every rank, one after the other: there may be a million.
void for_each_step(const format::DumpReader& dump,
                   const std::function<void(const StepSummary&)>& use);

}  // namespace rlreplay::replay
