#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "src/engine/rollout.h"
#include "src/engine/rotary.h"

namespace rlreplay::engine {

/// How many positions a table of rotations needs for samples, or for all that may be generated: no
/// more than the model has, since longer samples are refused.
[[nodiscard]] int64_t positions_of(const ModelConfig& model, std::span<const Sample> samples);
[[nodiscard]] int64_t positions_of(const ModelConfig& model, std::span<const Request> requests,
                                   int64_t max_response);

/// A table of rotations that grows with the samples that are seen. Its rows do not depend on how
/// many there are.
class GrowingRotary {
 public:
  GrowingRotary(const ModelConfig& config, kernels::Rope rope) : config_(config), rope_(rope) {}

  /// Of at least so many positions; valid until the next call.
  RotaryView view_for(int64_t positions, ThreadPool& pool);

 private:
  const ModelConfig config_;
  const kernels::Rope rope_;
  std::optional<kernels::RotaryTable> table_;
};

}  // namespace rlreplay::engine
