#pragma once

#include <string>
#include <vector>

#include "src/replay/options/options.h"

/// A YAML file: as settings of a run, or as what another program's configuration holds.
namespace rlreplay::replay {

/// A setting, and the line that it stands in.
struct PlacedSetting {
  Setting setting;
  std::string where;  // path:line
};

/// The settings of a YAML file: one flat mapping; lists of scalars are joined by commas.
/// Errors: as read_file; kCorrupt, naming path:line.
[[nodiscard]] std::vector<PlacedSetting> read_yaml_settings(const std::string& path);

/// A value of a YAML file and the keys that lead to it. Each is YAML again, on one line, which
/// every reader takes for what stands in the file: plain where the file has it plain, so that no
/// reading of `no`, `1e-3` or `010` is chosen here; quoted where the file has it quoted, unless
/// every reader takes the plain text for that text, too.
struct YamlLeaf {
  std::vector<std::string> keys;
  std::string text;
};

/// The values of a file that is one mapping, nested or not; a list or an empty mapping is one
/// value. Errors: as read_file; kCorrupt, kUnsupported, naming path:line.
[[nodiscard]] std::vector<YamlLeaf> read_yaml_leaves(const std::string& path);

}  // namespace rlreplay::replay
