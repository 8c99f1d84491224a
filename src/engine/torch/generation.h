#pragma once

#include <functional>
#include <span>
#include <vector>

#include "src/engine/rollout.h"
#include "src/engine/torch/network.h"

/// For the files of this folder alone.
namespace rlreplay::aten {

/// engine::rollout on a network: the same requests, noise and limits, so that its tokens can be
/// compared. The tokens are drawn by the kernel set of `runtime` from libtorch's logits.
[[nodiscard]] std::vector<Sample> generate(const engine::Runtime& runtime, const ModelConfig& model,
                                           Network& network, at::ScalarType type,
                                           std::span<const engine::Request> requests,
                                           const engine::RolloutConfig& config,
                                           const std::function<void(int64_t)>& progress);

}  // namespace rlreplay::aten
