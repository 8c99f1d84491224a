#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace rlreplay {

/// The ids that a sampler kept for each response token: what its log-probability was taken over.
/// Token t has ids [offsets[t], offsets[t + 1]).
struct Nuclei {
  std::vector<uint64_t> offsets;  // [response + 1]
  std::vector<int32_t> ids;

  std::span<const int32_t> at(size_t t) const {
    return std::span(ids).subspan(offsets[t], offsets[t + 1] - offsets[t]);
  }
};

/// One response to one prompt, as a rollout leaves it.
struct Sample {
  uint64_t id = 0;
  uint64_t group = 0;           // samples of one prompt
  std::vector<int32_t> tokens;  // prompt, then response
  int64_t prompt_length = 0;
  double reward = 0;
  std::vector<uint8_t> loss_mask;        // per response token, 0 or 1
  std::vector<float> rollout_log_probs;  // per response token; may be empty
  /// Samples of one trajectory (the calls of an agent, a conversation that was compacted) count as
  /// one where samples are counted. Without one a sample is its own.
  std::optional<uint64_t> trajectory;
  std::optional<int64_t> trajectory_tokens;  // unmasked ones of it, where a trainer says so
  std::optional<Nuclei> nuclei;              // none: all ids

  int64_t response_length() const { return static_cast<int64_t>(tokens.size()) - prompt_length; }
  /// Whether response token `t` is left out of the objective; without a mask none is.
  [[nodiscard]] bool is_masked(int64_t t) const {
    const auto i = static_cast<size_t>(t);
    return i < loss_mask.size() && loss_mask[i] == 0;
  }
};

/// What a model says of scored tokens: of all of a sample's response, or of some rows of a batch.
struct Scores {
  std::vector<float> log_probs;
  std::vector<float> entropy;
};

/// What the objective needs of a sample besides its tokens; per response token.
struct SampleTargets {
  std::vector<float> advantages;
  std::vector<float> old_log_probs;  // empty: those of the step's own forward pass
  std::vector<float> ref_log_probs;  // empty without a reference model
  // What advantages alone read; empty where nothing asks for it.
  std::vector<float> values{};             // a critic's, for GAE
  std::vector<float> teacher_log_probs{};  // on-policy distillation
  std::vector<float> reverse_kl{};         // of the teacher, where it is given computed
};

/// Indices of the samples by ascending id: the order of every sum over samples, so that the order
/// in which a batch holds them cannot matter.
[[nodiscard]] inline std::vector<size_t> by_id(std::span<const Sample> samples) {
  std::vector<size_t> order(samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return samples[a].id < samples[b].id; });
  return order;
}

/// What tells trajectories apart: its own id for a sample that names none.
[[nodiscard]] inline std::pair<bool, uint64_t> trajectory_of(const Sample& s) {
  return {s.trajectory.has_value(), s.trajectory.value_or(s.id)};
}

}  // namespace rlreplay
