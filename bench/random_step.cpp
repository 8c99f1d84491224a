#include "bench/random_step.h"

#include <cmath>

namespace rlreplay::bench {

void fill_random(const ParameterTable& parameters, std::span<float> weights) {
  Numbers numbers(1);
  for (const Parameter& p : parameters.list) {
    const bool norm = p.is_vector() && p.role != Role::kBias;
    const auto scale = static_cast<float>(std::sqrt(3.0 / static_cast<double>(p.cols)));
    for (int64_t i = 0; i < p.size(); ++i) {
      weights[static_cast<size_t>(p.offset + i)] = norm ? 1.0f : scale * numbers.number();
    }
  }
}

Batch random_batch(const ModelConfig& model, std::span<const int64_t> lengths) {
  Numbers numbers(2);
  const auto uniform = static_cast<float>(-std::log(static_cast<double>(model.vocab)));
  Batch out;
  for (size_t i = 0; i < lengths.size(); ++i) {
    Sample& s = out.samples.emplace_back();
    s.id = s.group = i;
    for (int64_t t = 0; t < lengths[i]; ++t) s.tokens.push_back(numbers.below(model.vocab));
    s.prompt_length = lengths[i] / 4;
    s.loss_mask.assign(static_cast<size_t>(s.response_length()), 1);
    SampleTargets& t = out.targets.emplace_back();
    t.advantages.assign(s.loss_mask.size(), i % 2 == 0 ? 1.0f : -1.0f);
    t.old_log_probs.assign(s.loss_mask.size(), uniform);
  }
  return out;
}

}  // namespace rlreplay::bench
