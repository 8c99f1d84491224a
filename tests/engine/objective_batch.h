#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/sample.h"
#include "tests/engine/objective_formulas.h"
#include "tests/kernels/support.h"

/// A batch for the objective, without a model.
namespace rlreplay::engine::test {

inline constexpr KlType kKlTypes[] = {KlType::kK1, KlType::kK2, KlType::kK3, KlType::kLowVar};
inline constexpr Dialect kDialects[] = {Dialect::kSlime, Dialect::kMiles};

inline formulas::Token token(const TokenInput& t) {
  return {t.log_prob, t.entropy, t.old_log_prob, t.ref_log_prob, t.rollout_log_prob, t.advantage};
}

/// Six samples in three groups, not in the order of their ids: an empty response, one of one token,
/// one that is masked throughout.
struct Batch {
  std::vector<Sample> samples;
  std::vector<SampleTargets> targets;
  std::vector<std::vector<float>> log_probs, entropy;
};

inline Batch random_batch(uint64_t seed) {
  kernels::test::Random random(seed);
  Batch out;
  const uint64_t ids[] = {12, 7, 99, 3, 41, 8};
  const int64_t lengths[] = {5, 1, 9, 0, 30, 4};
  for (size_t i = 0; i < 6; ++i) {
    Sample s;
    s.id = ids[i];
    s.group = i % 3;
    s.prompt_length = 2;
    s.tokens.resize(static_cast<size_t>(2 + lengths[i]));
    s.reward = random.uniform();
    SampleTargets t;
    std::vector<float> log_probs, entropy;
    for (int64_t j = 0; j < lengths[i]; ++j) {
      s.loss_mask.push_back(i == 5 || random.below(4) == 0 ? 0 : 1);
      log_probs.push_back(-2.0f + 0.5f * random.normal());
      entropy.push_back(1.5f + 0.2f * random.normal());
      t.old_log_probs.push_back(log_probs.back() + 0.3f * random.normal());
      t.ref_log_probs.push_back(log_probs.back() + 0.3f * random.normal());
      s.rollout_log_probs.push_back(t.old_log_probs.back() + 0.3f * random.normal());
      t.values.push_back(random.normal());
      t.teacher_log_probs.push_back(log_probs.back() + 0.3f * random.normal());
      t.advantages.push_back(random.normal());
    }
    out.samples.push_back(std::move(s));
    out.targets.push_back(std::move(t));
    out.log_probs.push_back(std::move(log_probs));
    out.entropy.push_back(std::move(entropy));
  }
  return out;
}

inline void drop_empty(Batch& b) {
  for (size_t i = b.samples.size(); i-- > 0;) {
    if (!b.samples[i].loss_mask.empty()) continue;
    const auto at = static_cast<ptrdiff_t>(i);
    b.samples.erase(b.samples.begin() + at);
    b.targets.erase(b.targets.begin() + at);
    b.log_probs.erase(b.log_probs.begin() + at);
    b.entropy.erase(b.entropy.begin() + at);
  }
}

/// Whether `run` throws an Error of this code whose sentence holds `words`.
template <class Run>
bool refused(ErrorCode code, const std::string& words, const Run& run) {
  try {
    run();
  } catch (const Error& error) {
    INFO(error.what());
    CHECK(std::string(error.what()).find(words) != std::string::npos);
    return error.code() == code;
  }
  return false;
}

}  // namespace rlreplay::engine::test
