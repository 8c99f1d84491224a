#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace rlreplay::engine {

/// One response to one prompt, as a rollout leaves it.
struct Sample {
  uint64_t id = 0;
  uint64_t group = 0;           // samples of one prompt
  std::vector<int32_t> tokens;  // prompt, then response
  int64_t prompt_length = 0;
  double reward = 0;
  std::vector<uint8_t> loss_mask;        // per response token, 0 or 1
  std::vector<float> rollout_log_probs;  // per response token; may be empty

  int64_t response_length() const { return static_cast<int64_t>(tokens.size()) - prompt_length; }
};

/// What the objective needs of a sample besides its tokens; per response token.
struct SampleTargets {
  std::vector<float> advantages;
  std::vector<float> old_log_probs;  // empty: those of the step's own forward pass
  std::vector<float> ref_log_probs;  // empty without a reference model
};

/// Indices of the samples by ascending id: the order of every sum over samples, so that the order
/// in which a batch holds them cannot matter.
inline std::vector<size_t> by_id(std::span<const Sample> samples) {
  std::vector<size_t> order(samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return samples[a].id < samples[b].id; });
  return order;
}

}  // namespace rlreplay::engine
