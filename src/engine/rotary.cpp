#include "src/engine/rotary.h"

namespace rlreplay::engine {

kernels::RopeConfig rope_config(const ModelConfig& config, kernels::Rope rope) {
  kernels::RopeConfig out;
  out.head_size = config.head_dim;
  out.theta = config.rope_theta;
  out.rope = rope;
  if (config.rope_scaling.llama3) {
    const RopeScaling& scaling = config.rope_scaling;
    out.scaling = kernels::RopeScaling::kLlama3;
    out.factor = scaling.factor;
    out.low_freq_factor = scaling.low_freq_factor;
    out.high_freq_factor = scaling.high_freq_factor;
    out.original_max_position_embeddings = static_cast<double>(scaling.original_max_positions);
  }
  return out;
}

kernels::RotaryTable make_rotary_table(const ModelConfig& config, kernels::Rope rope,
                                       int64_t positions, ThreadPool& pool) {
  return kernels::RotaryTable(rope_config(config, rope), positions, pool);
}

}  // namespace rlreplay::engine
