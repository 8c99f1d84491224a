#pragma once

#include <string_view>

#include "src/replay/options/options.h"

namespace rlreplay::replay {

/// What an option is read with, of a training or a rollout; `text` says it behind "it needs".
struct OptionNeed {
  std::string_view option;
  bool (*met)(const RunOptions& options);
  std::string_view text;
};

/// The need of an option that these options do not meet, so that its value changes nothing; null
/// where it has none.
[[nodiscard]] const OptionNeed* unmet_need(const Option& option, const RunOptions& options);

}  // namespace rlreplay::replay
