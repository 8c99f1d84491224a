#pragma once

#include <cstdint>

#include "kernels/rotary_table.h"
#include "src/base/model_config.h"
#include "src/base/thread_pool.h"

namespace rlreplay::engine {

/// cos and sin of every position, [positions, D / 2].
struct RotaryView {
  kernels::Matrix<const float> cos;
  kernels::Matrix<const float> sin;
};

/// What the model's configuration says of its rotary embedding.
[[nodiscard]] kernels::RopeConfig rope_config(const ModelConfig& config, kernels::Rope rope);

/// The model's table for sequences of up to `positions` tokens.
[[nodiscard]] kernels::RotaryTable make_rotary_table(const ModelConfig& config, kernels::Rope rope,
                                                     int64_t positions, ThreadPool& pool);

/// A view of a table, which must outlive it.
[[nodiscard]] inline RotaryView view(const kernels::RotaryTable& table) {
  return {table.cos(), table.sin()};
}

}  // namespace rlreplay::engine
