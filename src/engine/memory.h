#pragma once

#include <cstdint>
#include <string>

#include "src/base/layout.h"
#include "src/base/model_config.h"

/// What a run will hold in memory, before it takes any.
namespace rlreplay::engine {

/// The sizes that memory depends on besides the model's.
struct MemoryShape {
  bool training = true;              // else generation and scoring only
  bool recompute = false;            // StageOptions::recompute
  bool reference = false;            // the weights of a second model, to compare with
  int64_t micro_batch_tokens = 0;    // of the samples that go through the model together
  int64_t slots = 0;                 // samples generated at once; 0: no rollout
  int64_t longest_prompt = 0;        // of a rollout
  int64_t longest_sample = 0;        // its prompt and the longest response
  bool nuclei = false;               // of samples: logits are held a second time
  int64_t recorded_state_bytes = 0;  // of weights and moments that recording holds at once
  int64_t recorded_tokens = 0;       // of a step whose values are recorded; 0: they are not
  Layout layout = {};                // all ranks being in this process, ready to train
};

/// Bytes by part. The first five and the last two are there all the time; of the rollout's and the
/// micro-batch's, which take turns, the larger counts.
struct MemoryEstimate {
  int64_t weights = 0;
  int64_t packed = 0;  // the products' own copies of the weights
  int64_t moments = 0;
  int64_t gradients = 0;
  int64_t reference = 0;
  int64_t rollout_activations = 0;
  int64_t kv_cache = 0;
  int64_t activations = 0;  // of a micro-batch
  int64_t logits = 0;       // of either
  int64_t recording = 0;    // what a dump's writer holds
  int64_t ranks = 0;        // weights, products, moments and gradients of all ranks of a layout

  int64_t total() const;
};

/// Counts the buffers of engine::rollout, score and run_step, and the states and values that are
/// recorded; the programs themselves and digests come on top.
[[nodiscard]] MemoryEstimate estimate_memory(const ModelConfig& config, const MemoryShape& shape);

/// "weights 1.98 GB, packed 3.95 GB, ...; 12.3 GB at the peak": one line, parts of 0 left out.
[[nodiscard]] std::string to_string(const MemoryEstimate& estimate);

/// Errors: kEnvironment where the estimate does not fit into `available` bytes, with the parts and
/// the options that would make it smaller.
void check_memory(const MemoryEstimate& estimate, int64_t available);

}  // namespace rlreplay::engine
