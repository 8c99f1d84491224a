#include "bench/step_item.h"

#include "src/replay/source/demo.h"

namespace rlreplay::bench {
namespace {

ModelConfig qwen_half_billion() {
  ModelConfig c;
  c.architecture = Architecture::kQwen2;
  c.hidden = 896;
  c.intermediate = 4864;
  c.layers = 24;
  c.heads = 14;
  c.kv_heads = 2;
  c.head_dim = 64;
  c.vocab = 151936;
  c.max_positions = 32768;
  c.rope_theta = 1e6;
  c.tied = true;
  c.qkv_bias = true;
  return c;
}

/// A response goes on to its limit: how soon a model stops is no matter of speed.
ModelConfig demo() {
  ModelConfig c = replay::demo_config();
  c.stop_ids.clear();
  return c;
}

}  // namespace

std::vector<StepItem> step_items() {
  const std::vector<int64_t> answers(256, 16), questions(256, 10);
  return {
      {"demo step", Work::kStep, demo(), answers, 0, 0, 3, 20},
      {"demo generate", Work::kGenerate, demo(), questions, 6, 0, 3, 5},
      {"qwen2.5-0.5b step", Work::kStep, qwen_half_billion(), {256, 512, 384, 256}, 0, 1, 3, 1},
      {"qwen2.5-0.5b generate", Work::kGenerate, qwen_half_billion(), std::vector<int64_t>(8, 64),
       64, 0, 3, 1},
  };
}

}  // namespace rlreplay::bench
