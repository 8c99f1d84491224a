#include "src/replay/run/run_config.h"

#include "src/replay/options/objective_config.h"

namespace rlreplay::replay {
kernels::Rope rope(const RunOptions& options) {
  return options.rope == "exact" ? kernels::Rope::kExact : kernels::Rope::kHf;
}

engine::RolloutConfig rollout_config(const RunOptions& options, const ModelConfig& model) {
  engine::RolloutConfig out;
  out.sampling.temperature = static_cast<float>(options.rollout_temperature);
  out.sampling.top_k = options.rollout_top_k < 0 ? 0 : options.rollout_top_k;
  out.sampling.top_p = options.rollout_top_p;
  out.sampling.seed = static_cast<uint64_t>(options.rollout_seed);
  out.max_response = options.rollout_max_response_len;
  out.stop_ids = model.stop_ids;
  for (const int64_t id : options.rollout_stop_token_ids) {
    out.stop_ids.push_back(static_cast<int32_t>(id));
  }
  out.slots = options.rollout_slots;
  return out;
}

engine::StepConfig step_config(const RunOptions& options) {
  engine::StepConfig out;
  out.objective = objective_config(options);
  out.train.temperature = static_cast<float>(options.rollout_temperature);
  out.train.recompute = options.recompute;
  out.optimizer.beta1 = options.adam_beta1;
  out.optimizer.beta2 = options.adam_beta2;
  out.optimizer.eps = options.adam_eps;
  out.optimizer.weight_decay = options.weight_decay;
  out.optimizer.decay_vectors = options.decay_vectors;
  out.optimizer.clip_grad = static_cast<float>(options.clip_grad);
  out.micro_batch_size = options.micro_batch_size;
  return out;
}

}  // namespace rlreplay::replay
