#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/replay/options.h"

namespace rlreplay::replay {

/// The settings of a YAML or JSON file: one mapping from option names (- or _) to values.
/// Errors: kIncomplete where there is no such file; kCorrupt, naming line or key.
std::vector<Setting> read_config_file(const std::string& path);

/// All options as a JSON object, and back: what a dump carries.
std::string options_json(const RunOptions& options);
/// `where` names the text in errors.
std::vector<Setting> parse_options_json(std::string_view text, const std::string& where);

/// All options as YAML, by section: what --print-config prints and --config reads.
std::string options_yaml(const RunOptions& options);

}  // namespace rlreplay::replay
