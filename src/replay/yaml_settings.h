#pragma once

#include <string>
#include <vector>

#include "src/replay/options.h"

namespace rlreplay::replay {

/// The settings of a YAML file: one flat mapping; lists of scalars are joined by commas.
/// Errors: kIncomplete where there is no such file; kCorrupt, naming path:line.
std::vector<Setting> read_yaml_settings(const std::string& path);

}  // namespace rlreplay::replay
