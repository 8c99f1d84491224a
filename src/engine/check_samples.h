#pragma once

#include <span>

#include "src/base/model_config.h"
#include "src/base/sample.h"
#include "src/engine/rollout.h"

/// The engine's border: behind it, kernels index by token ids and positions without looking.
namespace rlreplay::engine {

/// Errors: kCorrupt for a token id, or one in a nucleus, outside of the model's vocabulary and for
/// a sample with more tokens than the model has positions; kUsage for one without a prompt, or
/// whose prompt is longer than itself.
void check_sample(const ModelConfig& model, const Sample& sample);
void check_samples(const ModelConfig& model, std::span<const Sample> samples);

/// Errors: kCorrupt for a token id outside of the vocabulary; kUsage for an empty prompt, one that
/// leaves no position for a response, a sample id that is not below 2^56 (two of them would draw
/// the same noise), and options out of their range.
void check_requests(const ModelConfig& model, std::span<const Request> requests,
                    const RolloutConfig& config);

}  // namespace rlreplay::engine
