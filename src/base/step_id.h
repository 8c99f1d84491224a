#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace rlreplay {

/// An optimizer step of a run.
struct StepId {
  int64_t rollout = 0;
  int64_t step = 0;
  friend auto operator<=>(const StepId&, const StepId&) = default;
  /// `3-0`, as groups of a dump are named, and `3.0`, as people write it.
  std::string group() const { return std::to_string(rollout) + "-" + std::to_string(step); }
  std::string name() const { return std::to_string(rollout) + "." + std::to_string(step); }
};

}  // namespace rlreplay
