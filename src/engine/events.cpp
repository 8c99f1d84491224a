#include "src/engine/events.h"

namespace rlreplay::engine {

std::string_view name(Phase phase) {
  switch (phase) {
    case Phase::kRollout:
      return "rollout";
    case Phase::kForward:
      return "forward";
    case Phase::kObjective:
      return "objective";
    case Phase::kBackward:
      return "backward";
    case Phase::kReduce:
      return "reduce";
    case Phase::kClip:
      return "clip";
    case Phase::kOptimizer:
      return "optimizer";
  }
  return "?";
}

std::string_view name(Op op) {
  switch (op) {
    case Op::kEmbedding:
      return "embedding";
    case Op::kInputNorm:
      return "input_norm";
    case Op::kQkv:
      return "qkv";
    case Op::kQkNorm:
      return "qk_norm";
    case Op::kRotary:
      return "rotary";
    case Op::kAttention:
      return "attention";
    case Op::kOutput:
      return "o";
    case Op::kPostNorm:
      return "post_norm";
    case Op::kGateUp:
      return "gate_up";
    case Op::kSwiGlu:
      return "swiglu";
    case Op::kDown:
      return "down";
    case Op::kFinalNorm:
      return "final_norm";
    case Op::kLogits:
      return "logits";
    case Op::kLogProb:
      return "log_prob";
    case Op::kLoss:
      return "loss";
    case Op::kGradient:
      return "gradient";
    case Op::kNorm:
      return "norm";
    case Op::kAdamW:
      return "adamw";
  }
  return "?";
}

}  // namespace rlreplay::engine
