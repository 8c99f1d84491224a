#pragma once

#include <string>
#include <vector>

#include "src/replay/options/options.h"

namespace rlreplay::replay {

struct PlacedSetting {
  Setting setting;
  std::string where;  // path:line
};

/// The settings of a YAML file: one flat mapping; lists of scalars are joined by commas.
/// Errors: as read_file; kCorrupt, naming path:line.
[[nodiscard]] std::vector<PlacedSetting> read_yaml_settings(const std::string& path);

}  // namespace rlreplay::replay
