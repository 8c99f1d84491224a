#include "src/replay/golden.h"

namespace rlreplay::replay {

void add_golden(const StepOutcome& step, GoldenEntries& entries) {
  const std::string key =
      "step " + std::to_string(step.rollout_id) + "." + std::to_string(step.step_id) + " ";
  entries[key + "reward"] = golden_value(step.reward);
  entries[key + "loss"] = golden_value(step.result.losses.total);
  entries[key + "grad_norm"] = golden_value(step.result.grad_norm);
  if (!step.digests) return;
  entries[key + "weights"] = step.digests->weights.hex();
  entries[key + "gradients"] = step.digests->gradients.hex();
  entries[key + "optimizer"] = step.digests->optimizer.hex();
}

}  // namespace rlreplay::replay
