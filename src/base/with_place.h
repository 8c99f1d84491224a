#pragma once

#include <cstdint>
#include <string>

#include "src/base/error.h"
#include "src/base/step_id.h"

namespace rlreplay {

/// Runs `work`; an error of its says that it happened in `place`: "step 3.0".
template <class Work>
[[nodiscard]] auto with_place(const std::string& place, const Work& work) {
  try {
    return work();
  } catch (const Error& e) {
    throw e.at(e.where().empty() ? place : place + ", " + e.where());
  }
}

/// The same, in a step.
template <class Work>
[[nodiscard]] auto with_step(StepId step, const Work& work) {
  return with_place("step " + step.name(), work);
}

/// The same, in a rollout.
template <class Work>
[[nodiscard]] auto with_rollout(int64_t rollout, const Work& work) {
  return with_place("rollout " + std::to_string(rollout), work);
}

}  // namespace rlreplay
