#include "src/replay/source/demo.h"

#include <algorithm>
#include <string>

#include "kernels/philox.h"
#include "src/engine/initialize.h"
#include "src/engine/rotary.h"
#include "src/engine/step.h"

namespace rlreplay::replay {
namespace {

constexpr int64_t kLessonSamples = 64;  // of a supervised step
constexpr int64_t kRampSteps = 20;
constexpr double kPeakLr = 4e-3;
constexpr uint64_t kLessonSeed =
    0x6c6573736f6e73;                  // lessons are drawn apart from the run's prompts
constexpr uint32_t kLessonStream = 1;  // counters of initial weights have 0 there

/// A problem with the answer that the lesson gives: right, and followed by a further summand half
/// of the time.
Prompt lesson(uint64_t seed, uint64_t index) {
  DemoTask task = demo_task(seed);
  task.seed ^= kLessonSeed;
  Prompt out = demo_prompt(task, index);
  const kernels::Words4 words = kernels::philox(
      {{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, kLessonStream}}, seed);
  if (words.word[0] % 2 == 0) *out.label += "+" + std::to_string(words.word[1] % 10);
  return out;
}

struct Lessons {
  std::vector<Sample> samples;
  std::vector<SampleTargets> targets;
};

Lessons lessons(const Tokenizer& tokenizer, uint64_t seed, int64_t step) {
  Lessons out;
  for (int64_t i = 0; i < kLessonSamples; ++i) {
    Sample s;
    s.id = static_cast<uint64_t>(step * kLessonSamples + i);
    s.group = s.id;
    const DemoExample example = demo_example(tokenizer, lesson(seed, s.id));
    s.tokens.assign(example.ids.begin(), example.ids.end());
    s.prompt_length = static_cast<int64_t>(example.prompt_length);
    const auto n = static_cast<size_t>(s.response_length());
    s.loss_mask.assign(n, 1);
    out.targets.push_back({std::vector<float>(n, 1.0f), std::vector<float>(n, 0.0f), {}});
    out.samples.push_back(std::move(s));
  }
  return out;
}

/// Rises for kRampSteps, and falls to nothing over the whole course.
double rate(int64_t step, int64_t steps) {
  const double ramp = static_cast<double>(step + 1) / static_cast<double>(kRampSteps);
  const double left = static_cast<double>(steps - step) / static_cast<double>(steps);
  return kPeakLr * std::min(1.0, ramp) * left;
}

}  // namespace

DemoTask demo_task(uint64_t seed) { return {seed, 9}; }

ModelConfig demo_config() {
  const Tokenizer tokenizer = demo_tokenizer();
  ModelConfig out;
  out.architecture = Architecture::kQwen2;
  out.hidden = 64;
  out.intermediate = 128;
  out.layers = 2;
  out.heads = 8;
  out.kv_heads = 4;
  out.head_dim = 8;
  out.vocab = tokenizer.size();
  out.max_positions = 64;
  out.tied = true;
  out.qkv_bias = true;
  out.stop_ids = {*tokenizer.find(kDemoEnd)};
  return out;
}

engine::Model make_demo(const engine::Runtime& runtime, const DemoOptions& options,
                        const DemoProgress& progress) {
  engine::Runtime silent = runtime;
  silent.sink = nullptr;
  const ModelConfig config = demo_config();
  const Tokenizer tokenizer = demo_tokenizer();
  engine::TrainState state(config);
  engine::initialize(silent, options.seed, state.model);
  engine::Gradients gradients(state.model.parameters());
  const kernels::RotaryTable rotary =
      engine::make_rotary_table(config, kernels::Rope::kHf, config.max_positions, silent.pool);
  engine::StepConfig step;
  step.objective.policy_loss = engine::PolicyLoss::kPlain;
  step.objective.reducer = engine::Reducer::kTokenMean;
  step.optimizer.beta2 = 0.98;
  step.optimizer.weight_decay = 0;
  for (int64_t i = 0; i < options.warm_steps; ++i) {
    const Lessons batch = lessons(tokenizer, options.seed, i);
    step.lr = rate(i, options.warm_steps);
    static_cast<void>(engine::run_step(silent, state, gradients, engine::view(rotary),
                                       batch.samples, batch.targets, step));
    if (progress) progress(i + 1, options.warm_steps);
  }
  return std::move(state.model);
}

}  // namespace rlreplay::replay
