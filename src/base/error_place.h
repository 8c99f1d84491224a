#pragma once

#include <cstdint>
#include <string>

#include "src/base/error.h"

namespace rlreplay::replay {

/// Runs `work`; an error of its says that it happened in `place`: "step 3.0".
template <class Work>
auto with_place(const std::string& place, const Work& work) {
  try {
    return work();
  } catch (const Error& e) {
    throw Error(e.code(), e.what(), e.where().empty() ? place : place + ", " + e.where());
  }
}

/// The same of a step. Rollout and step as a StepId names them.
template <class Work>
auto with_step(int64_t rollout, int64_t step, const Work& work) {
  return with_place("step " + std::to_string(rollout) + "." + std::to_string(step), work);
}

template <class Work>
auto with_rollout(int64_t rollout, const Work& work) {
  return with_place("rollout " + std::to_string(rollout), work);
}

}  // namespace rlreplay::replay
