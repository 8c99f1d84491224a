#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/error.h"
#include "src/replay/options/options.h"

namespace rlreplay::replay {

/// The settings of a YAML or JSON file. Errors: those of apply_config_file but apply_settings'.
[[nodiscard]] std::vector<Setting> read_config_file(const std::string& path);

/// Takes the settings of a YAML or JSON file over: one mapping from option names (- or _) to
/// values. Errors: kIncomplete where there is no such file; kCorrupt, naming the line, also where
/// an option is set twice; those of apply_settings, with the line.
void apply_config_file(RunOptions& options, const std::string& path);

/// An error about options, found after the file was read: with the line of the first option that
/// its sentence names and the file, not a flag, has set.
[[nodiscard]] Error placed_in_config(const Error& error, const std::string& path,
                                     std::span<const Setting> given);

/// The options that a dump carries, a JSON object. `where` names the text in errors.
[[nodiscard]] std::vector<Setting> parse_options_json(std::string_view text,
                                                      const std::string& where);

/// All options as YAML, by section: what --print-config prints and --config reads.
[[nodiscard]] std::string options_yaml(const RunOptions& options);

}  // namespace rlreplay::replay
