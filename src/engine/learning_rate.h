#pragma once

#include <cstdint>

/// Learning-rate schedules, as Megatron's scheduler computes them: linear warm-up, then constant or
/// decaying from the peak to the floor.
/// Source: Megatron-LM, megatron/core/optimizer_param_scheduler.py.
namespace rlreplay::engine {

/// How the rate falls from lr to min_lr behind the warm-up: not at all, straight, as half a cosine.
enum class DecayStyle { kConstant, kLinear, kCosine };

/// Options keep slime's names; iterations are optimizer steps.
struct LearningRate {
  double lr = 1e-6;   // the peak
  double min_lr = 0;  // where the decay ends
  DecayStyle decay_style = DecayStyle::kConstant;
  double warmup_init = 0;  // where the warm-up begins
  int64_t warmup_iters = 0;
  int64_t decay_iters = 0;  // warm-up and decay together; not read for kConstant
};

/// Errors: kUsage for rates and iterations that make no schedule, by the option's name.
void check_learning_rate(const LearningRate& schedule);

/// The rate of the step after `steps_taken` others. Steps 0 to warmup_iters rise from warmup_init
/// (so that a warm-up from 0 makes the first step change nothing) to lr; step decay_iters and
/// all later ones have min_lr.
/// Rounding: binary64, every operation once, as written in learning_rate.cpp; no libm. The cosine's
/// (cos(pi x) + 1) / 2 is sin(pi / 2 (1 - x))^2, which keeps its digits near the end.
[[nodiscard]] double learning_rate(const LearningRate& schedule, int64_t steps_taken);

}  // namespace rlreplay::engine
