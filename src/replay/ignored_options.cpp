#include "src/replay/ignored_options.h"

#include <algorithm>
#include <array>

namespace rlreplay::replay {
namespace {

constexpr std::array<std::string_view, 61> kIgnored = {
    "accumulate-allreduce-grads-in-fp32",
    "actor-num-gpus-per-node",
    "actor-num-nodes",
    "attention-backend",
    "attention-dropout",
    "attention-softmax-in-fp32",
    "balance-data",
    "bf16",
    "colocate",
    "context-parallel-size",
    "deterministic-mode",
    "disable-bias-linear",
    "dist-ckpt-format",
    "distributed-backend",
    "eval-interval",
    "eval-max-response-len",
    "eval-prompt-data",
    "eval-top-p",
    "expert-model-parallel-size",
    "expert-tensor-parallel-size",
    "hidden-dropout",
    "hf-checkpoint",
    "load",
    "log-interval",
    "log-probs-chunk-size",
    "log-probs-max-tokens-per-gpu",
    "max-tokens-per-gpu",
    "no-load-optim",
    "no-load-rng",
    "no-save-optim",
    "num-epoch",
    "num-gpus-per-node",
    "offload",
    "optimizer",
    "optimizer-cpu-offload",
    "overlap-cpu-optimizer-d2h-h2d",
    "pipeline-model-parallel-size",
    "recompute-granularity",
    "recompute-method",
    "recompute-num-layers",
    "ref-micro-batch-size",
    "rollout-num-gpus",
    "rollout-num-gpus-per-engine",
    "rollout-shuffle",
    "save-interval",
    "sequence-parallel",
    "sglang-cuda-graph-bs",
    "sglang-enable-deterministic-inference",
    "sglang-log-level",
    "sglang-mem-fraction-static",
    "sglang-server-concurrency",
    "tensor-model-parallel-size",
    "tensorboard-dir",
    "update-weight-buffer-size",
    "use-distributed-optimizer",
    "use-dynamic-batch-size",
    "use-fault-tolerance",
    "use-precision-aware-optimizer",
    "use-tensorboard",
    "use-wandb",
    "wandb-project",
};

}  // namespace

bool is_ignored_option(std::string_view name) {
  return std::find(kIgnored.begin(), kIgnored.end(), name) != kIgnored.end();
}

}  // namespace rlreplay::replay
