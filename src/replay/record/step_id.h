#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rlreplay::replay {

/// An optimizer step of a run.
struct StepId {
  int64_t rollout = 0;
  int64_t step = 0;
  friend auto operator<=>(const StepId&, const StepId&) = default;
  /// As groups of a dump are named, and as people write it.
  std::string group() const { return std::to_string(rollout) + "-" + std::to_string(step); }
  std::string name() const { return std::to_string(rollout) + "." + std::to_string(step); }
};

/// A step by either name, "3.0" or "3-0", of which each number may be negative; nothing for any
/// other text.
[[nodiscard]] std::optional<StepId> parse_step(std::string_view text);

}  // namespace rlreplay::replay
