#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/rotary_table.h"
#include "src/engine/memory.h"
#include "src/engine/transformer.h"

/// Scores of a model whose weights need not fit into memory: one layer is held at a time, in
/// binary32, and all tokens of a block pass it before the next one is read.
namespace rlreplay::engine {

/// Writes rows [begin, end) of a parameter in binary32; a vector is one row.
using WeightReader =
    std::function<void(const Parameter& parameter, kernels::Range rows, std::span<float> out)>;

/// How samples are scored. `block_bytes` and `micro_batch_tokens` bound memory and change no bit.
struct StreamOptions {
  float temperature = 1;
  kernels::Rope rope = kernels::Rope::kHf;
  /// Scores a second time with bfloat16's precision: the weights, what each operation leaves, and
  /// the logits are rounded to the nearest bfloat16; sums stay in binary32, and so does everything
  /// behind the logits.
  bool rounded = false;
  int64_t block_bytes = int64_t{512} << 20;  // of the tokens between two layers
  int64_t micro_batch_tokens = 2048;         // that are inside a layer together
};

/// How samples pass the model.
struct StreamPlan {
  std::vector<kernels::Range> blocks;  // of samples
  int64_t block_tokens = 0;            // of the largest
  int64_t micro_batch_tokens = 0;      // that are inside a layer together
  int64_t passes = 0;                  // of a block through a layer or the head
  bool nuclei = false;                 // logits are held a second time
};
[[nodiscard]] StreamPlan plan_stream(const ModelConfig& config, std::span<const Sample> samples,
                                     const StreamOptions& options);

/// What score_streamed will hold in memory; mapped files come on top.
[[nodiscard]] MemoryEstimate estimate_memory(const ModelConfig& config,
                                             const StreamOptions& options, const StreamPlan& plan);

/// Per sample, in their order; `rounded` is empty unless it was asked for.
struct StreamedScores {
  std::vector<Scores> exact;
  std::vector<Scores> rounded;
};

/// Gives the bits of Backend::score on the portable kernel set with the whole model in memory.
/// `progress` is told the passes that are done. Errors: as check_samples.
[[nodiscard]] StreamedScores score_streamed(const Runtime& runtime, const ModelConfig& config,
                                            const WeightReader& read,
                                            std::span<const Sample> samples,
                                            const StreamOptions& options, const StreamPlan& plan,
                                            const std::function<void(int64_t)>& progress);

}  // namespace rlreplay::engine
