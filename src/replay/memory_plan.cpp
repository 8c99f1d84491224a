#include "src/replay/memory_plan.h"

#include <algorithm>
#include <iostream>

#include "src/base/available_memory.h"
#include "src/engine/memory.h"
#include "src/replay/run_config.h"

namespace rlreplay::replay {
namespace {

constexpr int64_t kWorthSaying = int64_t{1} << 30;

engine::MemoryShape memory_shape(const RunOptions& options, const ModelConfig& model,
                                 const Workload& workload) {
  engine::MemoryShape out;
  out.training = workload.trains;
  out.recompute = options.recompute;
  out.reference = needs_reference(options);
  out.longest_prompt = workload.longest_prompt;
  out.longest_sample =
      std::min(workload.longest_prompt + options.rollout_max_response_len, model.max_positions);
  if (workload.longest_sample > 0) out.longest_sample = workload.longest_sample;
  const bool given = workload.step_samples > 0;
  const int64_t samples = given ? workload.step_samples : rollout_samples(options);
  if (workload.generates) out.slots = std::min(options.rollout_slots, samples);
  const int64_t micro_batch = options.micro_batch_size > 0 ? options.micro_batch_size
                              : given                      ? samples
                                                           : step_samples(options);
  if (workload.trains) out.micro_batch_tokens = std::min(micro_batch, samples) * out.longest_sample;
  return out;
}

}  // namespace

void check_run_memory(const RunOptions& options, const ModelConfig& model,
                      const Workload& workload) {
  const engine::MemoryEstimate estimate =
      engine::estimate_memory(model, memory_shape(options, model, workload));
  if (estimate.total() > kWorthSaying) {
    std::cerr << "rlreplay: memory: " << engine::to_string(estimate) << '\n';
  }
  engine::check_memory(estimate, available_memory());
}

}  // namespace rlreplay::replay
