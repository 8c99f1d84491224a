#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/sample_columns.h"

namespace rlreplay::format {

/// What a record counts of a group (SPEC.md section 2, *Counts*); what it does not count is absent.
struct GroupCounts {
  std::optional<uint64_t> samples, tokens, response_tokens, longest_response, masked_tokens, groups;
  std::optional<double> reward_mean, log_prob_mean;
  std::optional<std::array<uint64_t, 5>> finish;
  std::optional<std::pair<int64_t, int64_t>> versions;
  std::optional<std::vector<std::string>> columns;
  std::optional<bool> events;
  std::optional<NamedColumns> scalars;
};

/// `where` names the counts in errors. Errors: kCorrupt for counts of another form.
[[nodiscard]] GroupCounts parse_counts(std::string_view json, const std::string& where);

}  // namespace rlreplay::format
