#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/sample.h"

namespace rlreplay {

/// How far two sets of log-probabilities of the same tokens lie apart; only tokens with loss mask 1
/// count. `max` is what guides call forward_logp_max_diff.
struct LogProbDifference {
  double max = 0, mean = 0, p50 = 0, p99 = 0;  // of |a - b| over finite pairs
  int64_t tokens = 0;
  int64_t different = 0;  // pairs of other bits
  int64_t nonfinite = 0;  // pairs with a NaN or an infinity, in none of the above
  struct Place {
    uint64_t sample = 0;
    int64_t token = 0;  // in the whole sample, prompt included
  };
  std::optional<Place> where;  // of max, the first by sample and token; none where all are equal
};

/// Shapes: a[i], b[i] per response token of samples[i].
/// Order: the mean is a chain in binary64 by ascending sample id, then token.
[[nodiscard]] LogProbDifference compare_log_probs(std::span<const Sample> samples,
                                                  std::span<const std::vector<float>> a,
                                                  std::span<const std::vector<float>> b);

/// {"max": ..., "mean": ..., ..., "where": {"sample": ..., "token": ..., "rank": 0}}
[[nodiscard]] std::string to_json(const LogProbDifference& difference);

}  // namespace rlreplay
