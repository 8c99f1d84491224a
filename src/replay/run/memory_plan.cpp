#include "src/replay/run/memory_plan.h"

#include <algorithm>
#include <iostream>

#include "src/base/allocation.h"
#include "src/base/layout.h"
#include "src/base/parameters.h"
#include "src/engine/memory.h"
#include "src/events/event_record.h"
#include "src/replay/options/objective_config.h"
#include "src/replay/options/weights_policy.h"

namespace rlreplay::replay {
namespace {

constexpr int64_t kWorthSaying = int64_t{1} << 30;

/// Bytes of a state that a recorder holds at once: units that wait to be written, and the next.
int64_t recorded_state_bytes(const WeightsPolicy& policy, const ModelConfig& model) {
  constexpr int64_t kMost = int64_t{2} << 30;
  if (policy.every == 0 && !policy.first) return 0;
  return std::min<int64_t>(3 * sizeof(float) * make_parameters(model).elements, kMost);
}

engine::MemoryShape memory_shape(const RunOptions& options, const ModelConfig& model,
                                 const Workload& workload) {
  engine::MemoryShape out;
  out.training = workload.trains;
  out.recompute = options.recompute;
  out.layout = parse_layout(options.layout);
  out.reference = needs_reference(options);
  out.nuclei = workload.nuclei;
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
  if (!workload.records) return out;
  out.recorded_state_bytes = recorded_state_bytes(parse_weights_policy(options.weights), model);
  const bool values = engine::parse_record_options(options.record).values;
  if (values) out.recorded_tokens = (given ? samples : step_samples(options)) * out.longest_sample;
  return out;
}

engine::MemoryEstimate estimate(const RunOptions& options, const ModelConfig& model,
                                const Workload& workload) {
  return engine::estimate_memory(model, memory_shape(options, model, workload));
}

}  // namespace

int64_t fit_micro_batch(const RunOptions& options, const ModelConfig& model,
                        const Workload& workload, int64_t available) {
  // Stock kernels give other bits for other batches: there it is the user's choice.
  if (options.micro_batch_size > 0 || !workload.trains || options.kernels != "portable") {
    return options.micro_batch_size;
  }
  RunOptions tried = options;
  int64_t samples = workload.step_samples > 0 ? workload.step_samples : step_samples(options);
  while (samples > 1 && estimate(tried, model, workload).total() > available) {
    samples = (samples + 1) / 2;
    tried.micro_batch_size = samples;
  }
  return tried.micro_batch_size;
}

int64_t plan_run_memory(const RunOptions& options, const ModelConfig& model,
                        const Workload& workload) {
  const int64_t available = available_memory();
  RunOptions planned = options;
  planned.micro_batch_size = fit_micro_batch(options, model, workload, available);
  const engine::MemoryEstimate needed = estimate(planned, model, workload);
  if (needed.total() > kWorthSaying) {
    std::cerr << "rlreplay: memory: " << engine::to_string(needed);
    if (planned.micro_batch_size != options.micro_batch_size) {
      std::cerr << ", with " << planned.micro_batch_size << " samples at once";
    }
    std::cerr << '\n';
  }
  engine::check_memory(needed, available);
  return planned.micro_batch_size;
}

}  // namespace rlreplay::replay
