#pragma once

#include <span>
#include <vector>

#include "src/base/sample.h"
#include "src/objective/objective.h"

/// From a batch's log-probabilities to its losses: what a step does between forward and backward.
namespace rlreplay::engine {

/// The batch's losses, reduced: sums over tokens of w_t x_t in binary64.
struct Losses {
  double policy = 0;
  double entropy = 0;
  double kl = 0;
  double total = 0;
  double clip_fraction = 0;  // of the tokens that are clipped, x = 1
};

/// What the objective reads of response token `t`. Where the targets have no old log-probabilities,
/// the policy is its own past.
TokenInput token_input(const Sample& sample, const SampleTargets& targets, double weight, size_t t,
                       float log_prob, float entropy);

/// The same of all of a sample's response tokens.
std::vector<TokenInput> sample_input(const Sample& sample, const SampleTargets& targets,
                                     double weight, const Scores& scores);

/// Order: chains per sample over ascending tokens, then over samples by ascending id.
Losses reduce_losses(std::span<const Sample> samples, std::span<const double> weights,
                     std::span<const Scores> scores,
                     std::span<const std::vector<TokenTerms>> terms);

/// The objective of a batch whose log-probabilities are known.
struct Objective {
  std::vector<std::vector<TokenTerms>> terms;  // of every sample's response tokens
  Losses losses;
};

/// What run_step computes between its forward and its backward, by the same code.
/// Shapes: `weights` of sample_weights; `scores` as long as the responses.
/// Errors: as check_batch and check_scores.
Objective evaluate_objective(const ObjectiveConfig& config, std::span<const Sample> samples,
                             std::span<const SampleTargets> targets,
                             std::span<const double> weights, std::span<const Scores> scores);

/// Its losses alone, to the same bits: no more than a sample's terms are in memory.
Losses evaluate_losses(const ObjectiveConfig& config, std::span<const Sample> samples,
                       std::span<const SampleTargets> targets, std::span<const double> weights,
                       std::span<const Scores> scores);

/// PPO's value loss of one token: the larger square of the value's and the clipped value's distance
/// from the return.
struct ValueTerms {
  double loss = 0;
  double derivative = 0;  // by the value
  bool clipped = false;
};
ValueTerms value_objective(double clip, float value, float old_value, float target);

}  // namespace rlreplay::engine
