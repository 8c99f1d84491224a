#include "src/events/events.h"

#include <array>

namespace rlreplay::engine {

std::string_view name(Phase phase) {
  constexpr std::array<std::string_view, 7> kNames{"rollout", "forward", "objective", "backward",
                                                   "reduce",  "clip",    "optimizer"};
  return kNames[static_cast<size_t>(phase)];
}

std::string_view name(Op op) {
  constexpr std::array<std::string_view, 24> kNames{
      "batch",      "embedding", "input_norm", "qkv",     "qk_norm",    "rotary",
      "attention",  "o",         "post_norm",  "gate_up", "swiglu",     "down",
      "final_norm", "log_prob",  "sample",     "targets", "scale",      "terms",
      "loss",       "gradient",  "clip",       "exp_avg", "exp_avg_sq", "weight"};
  return kNames[static_cast<size_t>(op)];
}

}  // namespace rlreplay::engine
