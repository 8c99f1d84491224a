#pragma once

#include <cstdint>
#include <string>

namespace rlreplay::replay {

/// Which steps have the state before them in the dump.
struct WeightsPolicy {
  int64_t every = 0;  // 0: none; 1: all
  bool first = true;

  [[nodiscard]] bool keeps(int64_t steps_taken) const {
    if (steps_taken == 0) return first || every > 0;
    return every > 0 && steps_taken % every == 0;
  }
};

/// `all|first|every=N|none`. Errors: kUsage.
[[nodiscard]] WeightsPolicy parse_weights_policy(const std::string& text);

}  // namespace rlreplay::replay
