#pragma once

#include <string_view>

namespace rlreplay::replay {

/// Whether a launch script of slime, Miles or Megatron may hold this option (without dashes)
/// although nothing here depends on it: where and how fast a run goes, logging, checkpoints.
bool is_ignored_option(std::string_view name);

}  // namespace rlreplay::replay
