#pragma once

#include <functional>
#include <string>
#include <vector>

#include "format/foreign/dump_kind.h"
#include "format/foreign/tree_check.h"

namespace rlreplay::foreign {

/// A log-probability that was computed or stored in bf16 may round to just above zero: up to this.
inline constexpr double kMostLogProb = 0x1p-6;

/// A rollout's number that none can have, in words.
[[nodiscard]] inline std::string negative_rollout(int64_t id) {
  return "rollout_id is " + std::to_string(id) + ", expected a number from 0: rollouts are counted";
}

/// Whether it is of columns, which say how many samples a file has.
[[nodiscard]] inline bool is_of_columns(const Problem& found) {
  return found.code == "length-mismatch" && found.where == "rollout_data";
}

using ProblemSink = std::function<void(const Problem&)>;

/// Contradictions inside one dump, each with its sample: not-a-dump, unknown-version,
/// length-mismatch, bad-token, bad-mask, not-numbers, non-finite, bad-log-prob,
/// unknown-status, duplicate-index. At most 100; one of code `more-problems` counts the others, and
/// `all` is told each of them.
[[nodiscard]] std::vector<Problem> check_dump(const Tree& tree, Value root,
                                              const ProblemSink& all = {});

}  // namespace rlreplay::foreign
