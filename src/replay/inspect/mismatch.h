#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/replay/record/recorded_run.h"

/// Train against rollout log-probabilities: what guides call forward_logp_max_diff, with its
/// neighbours. Only tokens with loss mask 1 count; d = train - rollout.
namespace rlreplay::replay {

/// What a mismatch is measured with, beside the record.
struct MismatchOptions {
  double tis_low = 0, tis_high = 2;  // bounds of the truncated importance weight exp(d)
  size_t worst = 8;                  // tokens that are listed
};

/// Sums over pairs. Those with a NaN or an infinity are counted, and are in nothing else.
struct MismatchSums {
  int64_t tokens = 0;  // pairs, non-finite ones too
  int64_t nonfinite = 0;
  int64_t different = 0;                                  // of other bits
  double max = 0;                                         // of |d|
  double distance = 0;                                    // sum of |d|
  double k1 = 0, k2 = 0, k3 = 0;                          // sums of -d, d^2/2, exp(d) - 1 - d
  double weight = 0, weight_squares = 0, weight_off = 0;  // of w = exp(d): w, w^2, |w - 1|
  int64_t clipped = 0;                                    // w outside the bounds

  int64_t finite() const { return tokens - nonfinite; }
  /// A value of finite pairs (`max`, a percentile); nothing without any.
  [[nodiscard]] std::optional<double> measured(double value) const {
    return finite() > 0 ? std::optional(value) : std::nullopt;
  }
  /// A sum over finite pairs as their mean; nothing without any.
  [[nodiscard]] std::optional<double> mean(double sum) const;
  /// (sum w)^2 / (n sum w^2): 1 where all weights are equal.
  [[nodiscard]] std::optional<double> effective_share() const;
};

/// A token of a response, and its log-probability on both sides; `recorded` is the sampler's.
struct MismatchToken {
  int64_t rollout = 0;
  uint64_t sample = 0;
  int64_t token = 0;  // in the whole sample, prompt included
  int32_t id = 0;
  double train = 0, recorded = 0;  // log-probabilities
  double distance() const;         // infinite where one of them is not finite
};

/// The version of tokens whose sample has several, and does not say where each begins.
constexpr int64_t kSeveralVersions = INT64_MAX;

/// Decades of |d|: 0, below 1e-8, [1e-8, 1e-7), ..., [0.1, 1), 1 and above. Both |d| and the edges
/// are rounded to binary32, which is what log-probabilities and the frameworks' differences are.
constexpr size_t kDecades = 11;

/// What a run's mismatch is, over all pairs and by part of them.
struct Mismatch {
  std::string train_column;  // "old_log_probs", "log_probs", or both
  MismatchSums all;
  double p50 = 0, p90 = 0, p99 = 0;    // of |d|
  std::optional<MismatchToken> where;  // of the largest finite |d|; none where that is 0
  std::array<int64_t, kDecades> decades{};
  std::map<int64_t, MismatchSums> by_rollout;
  std::map<int64_t, MismatchSums> by_position;  // from 0: by the largest power of two at or below
  std::map<int64_t, MismatchSums> by_length;    // of responses: by that power of two, too
  std::map<int64_t, MismatchSums> by_version;   // of the weights; empty where not recorded
  std::vector<MismatchToken> worst;             // non-finite ones first, then by distance
  std::string incomplete;                       // why the record is not a whole one
  int64_t without = 0;                          // tokens of which one side was not recorded
  int64_t samples = 0;                          // that have both sides
  /// How many of `samples` do not say which ids top-p left; 0 where slime's sampler is not known to
  /// have had a top-p.
  int64_t without_nuclei = 0;
};

/// Measures all tokens of the run that both sides have.
/// Order: chains in binary64 by rollout, step, row of the step, and token.
/// Errors: kIncomplete where no token has both.
[[nodiscard]] Mismatch measure_mismatch(const RecordedRun& run, const MismatchOptions& options);

/// "8-15" for a bucket of a power of two.
[[nodiscard]] std::string bucket_name(int64_t from);

/// "1e-04" for the lower end of a decade, "0" for the first two.
[[nodiscard]] std::string decade_name(size_t decade);

}  // namespace rlreplay::replay
