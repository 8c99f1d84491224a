#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "src/base/sample.h"
#include "src/engine/transformer.h"

namespace rlreplay::engine {

/// One response to generate.
struct Request {
  uint64_t id = 0;
  uint64_t group = 0;
  std::vector<int32_t> prompt;
};

/// How responses are generated; `slots` changes no token.
struct RolloutConfig {
  SamplingConfig sampling;
  int64_t max_response = 256;
  std::vector<int32_t> stop_ids;  // kept as the response's last token
  int64_t slots = 32;             // samples generated at once
};

/// Generates a response to every request, `slots` at a time; a finished sample makes room for the
/// next one. Sample ids, not slots, decide the noise, so no batch composition changes a token.
/// Every token of the response has loss mask 1 and its log-probability. The ranks of a stage and of
/// a tensor-parallel group, which generate the same, all get it.
/// Errors: as check_requests; kCorrupt for logits that are not finite, from which nothing is drawn.
[[nodiscard]] std::vector<Sample> rollout(
    const ModelContext& context, std::span<const Request> requests, const RolloutConfig& config,
    const std::function<void(int64_t finished)>& progress = {});

}  // namespace rlreplay::engine
