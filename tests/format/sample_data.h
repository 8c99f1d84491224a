#pragma once

#include <string>
#include <vector>

#include "format/rollout_data.h"
#include "format/train_data.h"
#include "tests/format/support.h"

/// Rollouts and training data in which every field is used.
namespace rlreplay::format::test {

/// Lengths that no chunk divides, an empty response and an empty sample among them.
inline std::vector<uint64_t> odd_offsets(size_t samples, Random& random) {
  std::vector<uint64_t> offsets = {0};
  for (size_t s = 0; s < samples; ++s) {
    offsets.push_back(offsets.back() + (s % 5 == 3 ? 0 : 1 + random.below(97)));
  }
  return offsets;
}

inline std::vector<float> floats(size_t count, Random& random) {
  std::vector<float> values(count);
  for (float& v : values) v = -static_cast<float>(random.below(1000)) / 128.0f;
  return values;
}

inline std::vector<uint8_t> mask(size_t count, Random& random) {
  std::vector<uint8_t> values(count);
  for (uint8_t& v : values) v = static_cast<uint8_t>(random.below(2));
  return values;
}

inline Texts texts(size_t samples, const std::string& prefix) {
  Texts made;
  for (size_t s = 0; s < samples; ++s) made.add(s % 4 == 1 ? "" : prefix + std::to_string(s) + "é");
  return made;
}

inline RolloutData full_rollout(size_t samples) {
  Random random(samples);
  RolloutData data;
  data.offsets = odd_offsets(samples, random);
  const size_t tokens = data.offsets.back();
  for (size_t s = 0; s < samples; ++s) data.sample_id.push_back(3 * s + 1);
  for (size_t t = 0; t < tokens; ++t) data.tokens.push_back(static_cast<int32_t>(random.below(99)));
  data.group_id.emplace().values.assign(samples, 7);
  data.group_id->presence = mask(samples, random);
  data.trajectory_id.emplace().values.assign(samples, 5);
  data.prompt_length.emplace(samples, 0);
  data.log_probs.emplace().narrow = floats(tokens, random);
  TokenSets& nucleus = data.nucleus.emplace();
  for (size_t s = 0; s < samples; ++s) {
    for (uint64_t t = data.offsets[s]; t < data.offsets[s + 1]; ++t) {
      nucleus.sizes.push_back(static_cast<uint32_t>(t % 3));
      nucleus.ids.resize(nucleus.ids.size() + t % 3, static_cast<int32_t>(t));
    }
    nucleus.offsets.push_back(nucleus.ids.size());
  }
  data.removed.emplace().values = mask(samples, random);
  data.loss_mask.emplace().values = mask(tokens, random);
  data.rewards.emplace().values.assign(samples, 0.1);
  if (samples > 0) {
    data.reward_components = NamedColumns{{"exact", "form at"}, {}, mask(samples, random)};
    data.reward_components->values.assign(samples * 2, -0.0);
  }
  data.finish.emplace(samples, Finish::kLength);
  Versions& versions = data.versions.emplace();
  for (size_t s = 0; s < samples; ++s) {
    versions.versions.push_back(-static_cast<int64_t>(s));
    versions.offsets.push_back(versions.versions.size());
  }
  versions.starts.emplace(samples, 2);
  data.roles.emplace().values.assign(tokens, static_cast<uint8_t>(Role::kTool));
  data.roles->presence = mask(samples, random);
  if (samples > 0) {
    Calls& calls = data.calls.emplace();
    for (size_t s = 0; s < samples; ++s) {
      const auto length = static_cast<uint32_t>(data.offsets[s + 1] - data.offsets[s]);
      for (uint32_t c = 0; c < s % 3; ++c) {
        calls.first.push_back(length / 2 * c);
        calls.length.push_back(length / 2);
      }
      calls.offsets.push_back(calls.first.size());
    }
    const size_t count = calls.size();
    if (count > 0) {
      calls.finish.emplace(count, Finish::kStop);
      calls.truncated = mask(count, random);
      calls.version.emplace(count, -4);
      calls.seed.emplace(count, INT64_MIN);
      calls.numbers = NamedColumns{{"temperature", "top p"}, {}, {}};
      calls.numbers->values.assign(count * 2, 0.7);
    }
  }
  data.prompt_text = texts(samples, "prompt ");
  data.response_text = texts(samples, "");
  data.label_text = texts(samples, "label");
  data.label_text->presence = mask(samples, random);
  data.experts = Experts{2, 3, std::vector<uint16_t>(tokens * 6, 255)};
  if (samples % 2 == 1) {
    data.experts->layer_ids = {1, 4};
    data.experts->gates.emplace(tokens * 6, 0.25f);
    data.experts->recorded = mask(tokens, random);
  }
  return data;
}

inline TrainData full_train(size_t samples) {
  Random random(samples + 1000);
  TrainData data;
  data.offsets = odd_offsets(samples, random);
  const size_t tokens = data.offsets.back();
  for (size_t s = 0; s < samples; ++s) data.sample_id.push_back(1000 - s);
  data.tokens.emplace(tokens, 5);
  data.prompt_length.emplace(samples, 0);
  data.micro_batch.emplace(samples, 1);
  data.loss_mask.emplace().values = mask(tokens, random);
  data.rewards.emplace().values.assign(samples, 0.25);
  data.trajectory_id.emplace().values.assign(samples, 5);
  data.trajectory_tokens.emplace().values.assign(samples, 12);
  data.token_weights.emplace(tokens, 1.0 / 3);
  for (const TokenColumnField& field : kTokenColumnFields) {
    TokenFloats& column = (data.*field.column).emplace();
    column.narrow = floats(tokens, random);
    column.presence = mask(samples, random);
  }
  data.scalars = NamedColumns{{"loss", "grad_norm"}, {0.5, 1e300}, {}};
  return data;
}

}  // namespace rlreplay::format::test
