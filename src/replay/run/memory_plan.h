#pragma once

#include <cstdint>

#include "src/base/model_config.h"
#include "src/replay/options/options.h"

namespace rlreplay::replay {

/// What a run will do with its model, as far as memory depends on it.
struct Workload {
  bool generates = false;
  bool trains = true;
  int64_t longest_prompt = 0;
  // Of steps that are given, not planned by the options; 0: by the options.
  int64_t longest_sample = 0;
  int64_t step_samples = 0;
  bool nuclei = false;   // what top-p kept is given
  bool records = false;  // into a dump, as the options say
};

/// How many samples a step has in memory at once: those of --micro-batch-size, and where that is 0
/// all of them (0 again), or as many as fit into `available` bytes: bits do not depend on it.
[[nodiscard]] int64_t fit_micro_batch(const RunOptions& options, const ModelConfig& model,
                                      const Workload& workload, int64_t available);

/// Estimates the memory of a run before it takes any; says so on standard error from 1 GiB on.
/// Returns fit_micro_batch. Errors: kEnvironment where nothing fits, with what to do.
[[nodiscard]] int64_t plan_run_memory(const RunOptions& options, const ModelConfig& model,
                                      const Workload& workload);

}  // namespace rlreplay::replay
