#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/model_config.h"

/// What `scripts/bench step` measures, and one side of it in a process of its own.
namespace rlreplay::bench {

enum class Work { kStep, kGenerate };

/// A model's shape with random weights and the work on it.
struct StepItem {
  std::string name;
  Work work = Work::kStep;
  ModelConfig model;
  std::vector<int64_t> lengths;  // step: tokens of each sample; generate: of each prompt
  int64_t response = 0;          // generate: tokens of each response
  int64_t micro_batch_size = 0;
  int rounds = 1;       // processes of each side, in turn
  int repetitions = 1;  // in each process, after one that is not timed
};

[[nodiscard]] std::vector<StepItem> step_items();

/// One side's process, as it reports itself.
struct SideResult {
  std::vector<double> seconds;  // of each repetition
  int64_t tokens = 0;           // a repetition's: all of the batch, or those generated
  double processors = 0;        // processor seconds a second, while it was timed
  double peak_mib = 0;          // resident memory at most
};

/// Runs an item on a kernel set in this process. With `profile` a table of where the time went goes
/// to stderr.
[[nodiscard]] SideResult run_side(const StepItem& item, const std::string& kernels, int threads,
                                  bool profile);

}  // namespace rlreplay::bench
