#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "src/engine/model.h"
#include "src/replay/source/model_source.h"
#include "src/task/demo_task.h"

/// The built-in model: small enough to be made anew whenever it is asked for, and about half right,
/// so that the first reinforcement learning steps show. The same bits on every machine.
namespace rlreplay::replay {

/// How the demo's model is made.
struct DemoOptions {
  uint64_t seed = 1234;
  int64_t warm_steps = 60;  // supervised steps; with fewer the model knows less
};

using DemoProgress = std::function<void(int64_t done, int64_t steps)>;

/// Sums of two digits; prompts of a run and lessons of the warm start are drawn apart.
[[nodiscard]] DemoTask demo_task(uint64_t seed);

/// Qwen2's architecture with 8 query heads, 4 kv heads and 2 layers, tied, over the demo's
/// vocabulary; a response stops at kDemoEnd.
[[nodiscard]] ModelConfig demo_config();

/// Initial weights by the seed, then supervised steps of the engine itself (run_step with the plain
/// policy loss and advantage 1) on answers that go on after the sum half of the time: the model
/// learns to add, and to stop only now and then. No event of these steps is emitted. The model is
/// packed for forward and backward.
[[nodiscard]] engine::Model make_demo(const engine::Runtime& runtime,
                                      const DemoOptions& options = {},
                                      const DemoProgress& progress = {});

/// The model with its tokenizer and its task, problems of demo_prompt by the seed, judged by the
/// reward `exact`.
[[nodiscard]] std::unique_ptr<ModelSource> open_demo(const DemoOptions& options = {},
                                                     DemoProgress progress = {});
}  // namespace rlreplay::replay
