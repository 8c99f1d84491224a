#pragma once

#include <cstdint>

#include "src/base/model_config.h"
#include "src/replay/options.h"

namespace rlreplay::replay {

/// What a run will do with its model, as far as memory depends on it.
struct Workload {
  bool generates = false;
  bool trains = true;
  int64_t longest_prompt = 0;
  // Of steps that are given, not planned by the options; 0: by the options.
  int64_t longest_sample = 0;
  int64_t step_samples = 0;
};

/// Estimates the memory of a run before it takes any; says so on standard error from 1 GiB on.
/// Errors: kEnvironment where it cannot fit, with what to do.
void check_run_memory(const RunOptions& options, const ModelConfig& model,
                      const Workload& workload);

}  // namespace rlreplay::replay
