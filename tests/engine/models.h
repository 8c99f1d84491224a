#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "src/engine/step.h"
#include "tests/kernels/support.h"
#include "tests/random.h"

/// Small random models, batches and rotary tables for the engine's tests.
namespace rlreplay::engine::test {

using rlreplay::test::Random;

inline ModelConfig small_model(Architecture architecture) {
  ModelConfig c;
  c.architecture = architecture;
  c.hidden = 72;
  c.intermediate = 100;
  c.layers = 2;
  c.heads = 6;
  c.kv_heads = 2;
  c.head_dim = 24;
  c.vocab = 131;
  c.max_positions = 1024;
  c.tied = architecture == Architecture::kQwen2;
  c.qkv_bias = architecture == Architecture::kQwen2;
  c.qk_norm = architecture == Architecture::kQwen3;
  return c;
}

/// Sizes that no kernel likes: 16 query and 8 kv heads of 24, a vocabulary of 643.
inline ModelConfig odd_model(Architecture architecture, bool tied) {
  ModelConfig c = small_model(architecture);
  c.hidden = 88;
  c.intermediate = 132;
  c.heads = 16;
  c.kv_heads = 8;
  c.vocab = 643;
  c.tied = tied;
  if (architecture == Architecture::kLlama) {
    c.rope_theta = 500000;
    c.rope_scaling = {true, 8, 1, 4, 64};
  }
  return c;
}

inline void fill_weights(const ParameterTable& parameters, Buffer<float>& weights, uint64_t seed) {
  Random random(seed);
  for (const Parameter& p : parameters.list) {
    const double scale = p.is_vector() ? 0.1 : 1.0 / std::sqrt(static_cast<double>(p.cols));
    const float shift = p.is_vector() && p.role != Role::kBias ? 1.0f : 0.0f;
    for (int64_t i = 0; i < p.size(); ++i) {
      weights[static_cast<size_t>(p.offset + i)] =
          shift + static_cast<float>(scale * static_cast<double>(random.normal()));
    }
  }
}

/// The same of a backend's or rank's state.
inline void fill_weights(const ParameterTable& parameters, const StateSpans<float>& state,
                         uint64_t seed) {
  Buffer<float> weights(state.weights.size());
  fill_weights(parameters, weights, seed);
  std::copy_n(weights.data(), weights.size(), state.weights.data());
}

/// cos and sin in binary64 by libm, rounded once: good enough for tests of other things.
class Tables {
 public:
  Tables(const ModelConfig& c, int64_t positions) : half_(c.head_dim / 2), positions_(positions) {
    for (int64_t p = 0; p < positions; ++p) {
      for (int64_t i = 0; i < half_; ++i) {
        const double frequency =
            std::pow(c.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(c.head_dim));
        cos_.push_back(static_cast<float>(std::cos(static_cast<double>(p) * frequency)));
        sin_.push_back(static_cast<float>(std::sin(static_cast<double>(p) * frequency)));
      }
    }
  }
  RotaryView view() const {
    return {{cos_.data(), positions_, half_}, {sin_.data(), positions_, half_}};
  }

 private:
  int64_t half_, positions_;
  std::vector<float> cos_, sin_;
};

/// A step of the clipped objective with a KL and an entropy term, whose every coefficient counts.
inline StepConfig grpo_step() {
  StepConfig out;
  out.objective.eps_clip_high = 0.28;
  out.objective.kl_loss_coef = 0.05;
  out.objective.kl_loss_type = KlType::kLowVar;
  out.objective.entropy_coef = 0.01;
  out.optimizer.weight_decay = 0.1;
  out.lr = 1e-3;
  return out;
}

struct Batch {
  std::vector<Sample> samples;
  std::vector<SampleTargets> targets;
};

/// Samples of the given lengths with random tokens, masks, advantages and log-probabilities.
inline Batch random_batch(const ModelConfig& c, const std::vector<int64_t>& lengths,
                          uint64_t seed) {
  Random random(seed);
  Batch out;
  for (size_t i = 0; i < lengths.size(); ++i) {
    Sample s;
    s.id = 100 + i;
    s.group = i / 2;
    for (int64_t p = 0; p < lengths[i]; ++p) {
      s.tokens.push_back(static_cast<int32_t>(random.below(c.vocab)));
    }
    s.prompt_length = 1 + random.below(std::max<int64_t>(1, lengths[i] / 3));
    SampleTargets t;
    for (int64_t j = 0; j < s.response_length(); ++j) {
      s.loss_mask.push_back(random.below(5) == 0 ? 0 : 1);
      t.advantages.push_back(random.normal());
      t.old_log_probs.push_back(-5.0f + 0.3f * random.normal());
      t.ref_log_probs.push_back(-5.0f + 0.3f * random.normal());
      s.rollout_log_probs.push_back(t.old_log_probs.back() + 0.1f * random.normal());
    }
    out.samples.push_back(std::move(s));
    out.targets.push_back(std::move(t));
  }
  return out;
}

}  // namespace rlreplay::engine::test
