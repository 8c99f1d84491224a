#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/base/sample.h"
#include "src/objective/token_objective.h"

/// The objective of a batch: from its log-probabilities to its losses, which is what a step does
/// between forward and backward.
namespace rlreplay::engine {

/// The batch's losses, reduced: sums over tokens of w_t x_t in binary64.
struct Losses {
  double policy = 0;
  double entropy = 0;
  double kl = 0;
  double total = 0;
  double clip_fraction = 0;  // of the tokens that are clipped, x = 1
};

/// What sums over all samples of a step read of each: of a global batch, all that every rank knows.
struct SampleHeader {
  uint64_t id = 0;
  bool has_trajectory = false;
  uint64_t trajectory = 0;  // its own id where it has none
  int64_t unmasked = 0;     // response tokens that count
  bool says_tokens = false;
  int64_t trajectory_tokens = 0;  // where says_tokens
  int64_t tokens = 0;             // prompt and response
};
[[nodiscard]] SampleHeader header_of(const Sample& sample);

/// w_t of every sample's tokens, in binary64: 1 / (D_i N) or 1 / sum D_i. By tokens, D_i is the sum
/// of the sample's mask. By samples, that of its whole trajectory, and N the trajectories of the
/// batch, or `trajectories` where a trainer says how many. A D_i of 0 counts as 1.
[[nodiscard]] std::vector<double> sample_weights(Reducer reducer, std::span<const Sample> samples,
                                                 std::optional<int64_t> trajectories = {});
[[nodiscard]] std::vector<double> sample_weights(Reducer reducer,
                                                 std::span<const SampleHeader> samples,
                                                 std::optional<int64_t> trajectories);

/// One sample's part of the loss weight W, which sets the scale of the gradient sums
/// (docs/numerics.md section 2).
/// Order: a chain over ascending tokens.
[[nodiscard]] double loss_weight(const ObjectiveConfig& config, const Sample& sample,
                                 const SampleTargets& targets, double weight);

/// What the objective reads of response token `t`. Where the targets have no old log-probabilities,
/// the policy is its own past.
[[nodiscard]] TokenInput token_input(const Sample& sample, const SampleTargets& targets,
                                     double weight, size_t t, float log_prob, float entropy);

/// What the objective reads of all response tokens of a sample, in their order.
[[nodiscard]] std::vector<TokenInput> sample_input(const Sample& sample,
                                                   const SampleTargets& targets, double weight,
                                                   const Scores& scores);

/// The part of a batch's losses that one sample has. Order: a chain over ascending tokens.
[[nodiscard]] Losses sample_losses(const Sample& sample, double weight, const Scores& scores,
                                   std::span<const TokenTerms> terms);

/// Adds a sample's part; the order of the samples is the caller's.
void add(Losses& to, const Losses& sample);

}  // namespace rlreplay::engine
